#include "main/daemon.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cgroup_limits.h"
#include "base/files.h"
#include "base/heap_trimmer.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "main/child_arguments.h"
#include "main/open_ports.h"
#include "main/process_age.h"
#include "main/repository_wait.h"
#include "main/warm_only.h"
#include "metrics/catalog.h"
#include "program/operator_libraries.h"
#include "runner/operator_library.h"
#include "status/status_html.h"
#include "status/status_json.h"
#include "status/triton_metrics.h"

namespace stoker {
namespace {

CompileWorkerOptions WorkerOptions(const Options& options) {
  CompileWorkerOptions worker;
  if (!options.compiler_python.empty()) {
    worker.argv = {options.compiler_python, "-m", "compiler.worker"};
    if (!options.compile_sandbox) worker.argv.emplace_back("--no-sandbox");
  }
  worker.working_folder = options.compiler_folder;
  worker.parallel_jobs = options.compile_jobs;
  worker.job_timeout = options.compile_timeout;
  worker.start_timeout = options.compile_timeout;
  worker.job_memory_bytes = options.compile_memory_bytes;
  worker.allow_passes = options.allow_passes;
  return worker;
}

ReferenceRun::Options ReferenceOptions(const Options& options) {
  ReferenceRun::Options reference;
  if (!options.compiler_python.empty()) {
    reference.argv = {options.compiler_python, "-m", "compiler.reference"};
    if (!options.compile_sandbox) reference.argv.emplace_back("--no-sandbox");
    for (const std::string& library : options.operator_libraries) {
      reference.argv.push_back("--operator-library=" + library);
    }
  }
  reference.working_folder = options.compiler_folder;
  return reference;
}

// Resident and not backed by a file that could be dropped.
int64_t OwnMemory() {
  const absl::StatusOr<std::string> statm =
      Files::Real().Read("/proc/self/statm");
  long size = 0, resident = 0, shared = 0;  // pages
  if (!statm.ok() || std::sscanf(statm->c_str(), "%ld %ld %ld", &size,
                                 &resident, &shared) != 3) {
    return 0;
  }
  return int64_t{resident - shared} * sysconf(_SC_PAGESIZE);
}

// How often the cache's limits are held to.
constexpr absl::Duration kEvictionInterval = absl::Minutes(5);

// From the end of a drain on, for what the last clients are told.
constexpr absl::Duration kLastAnswers = absl::Seconds(2);

// How often house is kept.
constexpr timespec kHouseInterval = {.tv_sec = 5, .tv_nsec = 0};

}  // namespace

sigset_t Daemon::BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGUSR1, SIG_IGN);  // others' log rotation; it would end the process
  return signals;
}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Open(const Options& options,
                                                     const sigset_t& signals) {
  ASSIGN_OR_RETURN(PassedSockets passed, PassedSockets::FromEnvironment());
  std::unique_ptr<Daemon> daemon(
      new Daemon(options, signals, std::move(passed)));
  RETURN_IF_ERROR(daemon->OpenTls());
  RETURN_IF_ERROR(daemon->OpenPolicy());
  RETURN_IF_ERROR(daemon->OpenOperators());
  RETURN_IF_ERROR(daemon->OpenFiles());
  daemon->OpenModels();
  return daemon;
}

Daemon::Daemon(const Options& options, const sigset_t& signals,
               PassedSockets passed)
    : options_(options),
      signals_(signals),
      passed_(std::move(passed)),
      services_(ServiceManager::FromEnvironment()),
      clock_(Clock::Real()),
      refusals_(clock_),
      memory_([] { return MemoryOfGroup(); },
              [](const GroupMemory& used) {
                log::Error("{}", NearlyOutOfMemory(used, OwnMemory()));
              },
              clock_),
      toolchain_(HostToolchain(
          options.frozen && options.cxx.empty() ? BuildersCxx() : options.cxx)),
      machine_(MachineId()),
      gpus_(options.gpu.library,
            {.clock = &clock_,
             .metrics = &metrics_,
             .run_limit = options.gpu.run_limit},
            options.drain + absl::Seconds(1)),
      reference_(ReferenceOptions(options)) {
  RecordPhase("runtime");
  metrics_
      .Gauge(metric::kBuildInfo, {{"version", STOKER_VERSION},
                                  {"torch", toolchain_.torch},
                                  {"march", toolchain_.cpu.march}})
      .Set(1);
}

void Daemon::RecordPhase(const char* name) {
  metrics_.Gauge(metric::kStartupPhaseSeconds, {{"phase", name}})
      .Set(absl::ToDoubleSeconds(ProcessAge()));
}

absl::Status Daemon::OpenTls() {
  if (options_.tls.certificate.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(tls_, TlsContext::Open(options_.tls, metrics_, clock_));
  return absl::OkStatus();
}

absl::Status Daemon::OpenPolicy() {
  if (options_.policy.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(gate_, Gate::Open(options_.policy, metrics_, clock_));
  if (gate_->policy()->uses_names() && options_.tls.client_ca.empty()) {
    log::Warn(
        "{} knows callers by names of certificates, and nobody is asked for "
        "one: --tls-client-ca changes that",
        options_.policy);
  }
  return absl::OkStatus();
}

absl::Status Daemon::OpenOperators() {
  ASSIGN_OR_RETURN(const std::vector<OperatorLibrary> libraries,
                   LoadOperatorLibraries(options_.operator_libraries));
  for (const OperatorLibrary& library : libraries) {
    log::Info("operators of torch.ops.{} are those of {}", library.name,
              library.path);
  }
  return absl::OkStatus();
}

absl::Status Daemon::OpenFiles() {
  ASSIGN_OR_RETURN(telemetry_,
                   Telemetry::Open(options_.telemetry, metrics_, clock_));
  repository_ =
      ModelRepository::OpenLater(options_.model_repository, options_.model_name,
                                 options_.default_device, options_.overrides);
  if (options_.repository_wait == absl::ZeroDuration()) {
    RETURN_IF_ERROR(repository_->CheckRoot());
  }
  absl::StatusOr<std::unique_ptr<KernelCache>> cache =
      KernelCache::Open({.root = options_.cache,
                         .layers = options_.cache_layers,
                         .trust = options_.trust,
                         .refusals = &refusals_},
                        Files::Real(), metrics_);
  if (!cache.ok()) {
    return absl::Status(cache.status().code(),
                        absl::StrCat("--cache ", options_.cache, ": ",
                                     cache.status().message()));
  }
  cache_ = *std::move(cache);
  return absl::OkStatus();
}

void Daemon::OpenModels() {
  broker_ = std::make_unique<CompileBroker>(
      WorkerOptions(options_), cache_->entries(), clock_, metrics_);
  // Before anything asks torch for a GPU. What is wrong is said by the models
  // that want one.
  if (options_.default_device.is_gpu()) gpus_.Find().IgnoreError();
  if (!options_.fixed_threads) {
    free_cores_ = std::make_unique<FreeCores>(
        UsableCores(), [] { return ReadCpuTimes(); }, [] { return CpuLimit(); },
        clock_);
  }
  loader_ = MakeCpuLoader(free_cores_.get());
  first_run_ = std::make_unique<FirstRun>(
      FirstRun::Options{
          .argv = ChildCommand("first-run", options_.operator_libraries),
          .machine = machine_},
      cache_->facts());
  isolated_.argv = ChildCommand("isolated-runs", options_.operator_libraries);
  ModelManagerOptions options;
  options.poll_interval = options_.repository_poll;
  options.explicit_control = options_.explicit_control;
  options.load_models = options_.load_models;
  options.rebucket_interval = options_.rebucket;
  // Where all is only compiled nobody asks for anything.
  if (!options_.warm_only) {
    options.idle_after = options_.gpu.idle_after;
    options.memory_budget = options_.memory_budget;
  }
  metrics_.Gauge(metric::kMemoryBudget)
      .Set(static_cast<double>(options.memory_budget));
  options.resources = options_.resources;
  options.cores = UsableCores();
  options.toolchain = toolchain_;
  options.verify_promotions = options_.promotion_checks;
  options.compiles = !options_.compiler_python.empty();
  options.require_cache = options_.require_cache;
  options.trust_verdicts = !options_.recheck_promotions;
  options.first_run = first_run_.get();
  if (options_.isolate_unlisted) options.isolated = &isolated_;
  options.reference = &reference_;
  options.refusals = &refusals_;
  options.telemetry = telemetry_.get();
  tokenizers_ =
      std::make_unique<TokenizerLibrary>(options_.tokenizer_library, clock_);
  options.tokenizers = tokenizers_.get();
  options.machine = machine_;
  options.gpus = [this] { return gpus_.Find(); };
  manager_ = std::make_unique<ModelManager>(std::move(options), *repository_,
                                            cache_.get(), broker_.get(),
                                            *loader_, clock_, metrics_);
}

absl::StatusOr<int> Daemon::AwaitRepository() const {
  return stoker::AwaitRepository(*repository_, options_.repository_wait,
                                 signals_, clock_);
}

absl::StatusOr<int> Daemon::WarmUp() {
  ASSIGN_OR_RETURN(const int signal, AwaitRepository());
  if (signal != 0) return kWarmInterrupted;
  const int exit_code = WarmOnly(*manager_, signals_, clock_);
  manager_->Drain(clock_.Now());
  return exit_code;
}

absl::StatusOr<int> Daemon::Serve() {
  RETURN_IF_ERROR(Listen());
  AnnounceReadiness();
  ASSIGN_OR_RETURN(int signal, AwaitRepository());
  if (signal == 0) {
    manager_->Start();
    signal = KeepHouse();
  }
  Drain(signal);
  return 0;
}

Pages Daemon::MakePages() {
  Pages pages = {
      {"/", [this] { return StatusPage(status_reader_->Read()); }},
      {"/status.json",
       [this] {
         return Page{"application/json", StatusJson(status_reader_->Read()),
                     ""};
       }},
      {"/metrics", [this] {
         if (free_cores_ != nullptr) {
           metrics_.Gauge(metric::kFreeCores).Set(free_cores_->now());
         }
         std::string text = metrics_.Text();
         if (options_.triton_metrics) {
           text += TritonMetrics(ReadTritonFigures(*manager_, metrics_));
         }
         return Page{"text/plain; charset=utf-8", std::move(text), ""};
       }}};
  health_.AddTo(pages);
  return pages;
}

absl::Status Daemon::Listen() {
  status_reader_ = std::make_unique<StatusReader>(
      *manager_, metrics_, refusals_, clock_, clock_.Now() - ProcessAge());
  LatePages late_pages;
  profile_.AddTo(late_pages, *telemetry_);
  PageServerOptions pages;
  pages.address = options_.metrics_listen;
  pages.passed = &passed_;
  pages.tls = options_.metrics_tls ? tls_.get() : nullptr;
  pages.gate = gate_.get();
  pages.limits = options_.wire;
  pages.limits.max_connections = options_.metrics_connections;
  ASSIGN_OR_RETURN(pages_,
                   PageServer::Start(pages, MakePages(), std::move(late_pages),
                                     metrics_, clock_));
  const int cores = UsableCores();
  RpcServerOptions options;
  options.address = options_.listen;
  options.http_address = options_.http_listen;
  options.passed = &passed_;
  options.server_version = STOKER_VERSION;
  options.allow_client_shm = options_.allow_client_shm;
  options.max_request_bytes = static_cast<size_t>(options_.max_request_bytes);
  options.max_load_bytes += static_cast<size_t>(options_.overrides.max_bytes);
  options.tls = tls_.get();
  options.gate = gate_.get();
  options.telemetry = telemetry_.get();
  options.proxies = options_.proxies;
  options.limits = options_.wire;
  options.cpus = options_.port_cpus;
  options.loops = options.cpus.empty() ? std::clamp(cores / 4, 1, 8)
                                       : static_cast<int>(options.cpus.size());
  ASSIGN_OR_RETURN(rpc_,
                   RpcServer::Start(options, *manager_, clock_, metrics_));
  health_.Start(*rpc_);
  RecordPhase("listening");
  log::Info(
      "stokerd {} listening: gRPC port {}, metrics port {}, HTTP port {}; {} "
      "cores, {}, cache {}",
      STOKER_VERSION, rpc_->port(), pages_->port(), rpc_->http_port(), cores,
      toolchain_.cpu.march, options_.cache);
  WarnOfOpenPorts({options_.listen, options_.http_listen}, passed_,
                  tls_ != nullptr, gate_ != nullptr);
  if (const std::string others = passed_.CloseOthers(); !others.empty()) {
    log::Warn(
        "the service manager passed sockets that no option asks for (fd:NAME): "
        "{}",
        others);
  }
  return absl::OkStatus();
}

void Daemon::AnnounceReadiness() {
  manager_->OnReadinessChange([this, server = rpc_.get()] {
    server->UpdateHealth();
    const bool ready = manager_->ServerReady();
    if (ready && !was_ready_) {
      RecordPhase("ready");
      services_.Tell("READY=1");
      log::Info("ready {:.3f} s after launch",
                absl::ToDoubleSeconds(ProcessAge()));
    }
    was_ready_ = ready;
  });
}

int Daemon::KeepHouse() {
  HeapTrimmer trimmer;
  Watchdog watchdog(services_, *rpc_);
  MonotonicTime next_eviction = clock_.Now() + absl::Seconds(5);
  for (;;) {
    const int signal = sigtimedwait(&signals_, nullptr, &kHouseInterval);
    if (signal > 0) return signal;
    const MonotonicTime now = clock_.Now();
    trimmer.Look(now);
    gpus_.UpdateMetrics();
    Subprocess::ReapOrphans();
    watchdog.Look(now);
    if (tls_ != nullptr) tls_->Look();
    if (gate_ != nullptr) gate_->Look();
    // Those that may be loaded aren't known.
    if (gate_ != nullptr && !options_.explicit_control) {
      gate_->CompareModels(manager_->ModelNames());
    }
    services_.TellStatus(ServiceStatus(*manager_));
    if (now < next_eviction) continue;
    cache_->entries().Evict(options_.cache_limits, clock_.WallNow());
    next_eviction = now + kEvictionInterval;
  }
}

void Daemon::Drain(int signal) {
  services_.Tell("STOPPING=1");
  const MonotonicTime deadline = clock_.Now() + options_.drain;
  log::Info("{}: draining for at most {}",
            gpus_.lost() ? "a GPU is lost" : strsignal(signal),
            absl::FormatDuration(options_.drain));
  // Running calls are answered by the batchers, so the models go after the
  // wire.
  health_.Stop();
  profile_.Stop();
  limit_.emplace(clock_, deadline + kLastAnswers,
                 [this] { return gpus_.lost() ? GpuGuard::kExitCode : 0; });
  rpc_->Shutdown(deadline);
  if (gpus_.lost()) {
    // Every call is answered. What is left would free memory of a GPU that
    // refuses every call, where torch's destructors abort.
    log::Info("stopped");
    std::fflush(nullptr);
    _exit(GpuGuard::kExitCode);
  }
  manager_->Drain(deadline);
  rpc_.reset();
  log::Info("stopped");
}

}  // namespace stoker
