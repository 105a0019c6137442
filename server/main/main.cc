// stokerd: what is true of the process before the daemon (main/daemon.h)
// begins, and its end.
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/mapped_file.h"
#include "main/daemon.h"
#include "main/first_run_child.h"
#include "main/options.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace stoker {
namespace {

// Large intermediates of eager runs would be mapped and unmapped at each
// operator under glibc's default thresholds: measured 85 ms against 43 ms for a
// pointwise net.
void TuneAllocator() {
  mallopt(M_MMAP_THRESHOLD, 256 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
}

// Debian's abseil looks for lock cycles at every lock, gRPC's own included: 70
// ns instead of 12. ThreadSanitizer looks for them in the tests.
void TuneLocks() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

// gRPC writes to stderr on its own, in a format of its own, also where the
// caller reports the error. GRPC_VERBOSITY brings that back.
void QuietGrpc() { setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0); }

void SetUpLog(const std::string& level) {
  auto logger = spdlog::stderr_color_mt("stokerd");
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%-5l%$ %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

int Die(const absl::Status& status) {
  std::fprintf(stderr, "stokerd: %s\n", std::string(status.message()).c_str());
  return 1;
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

// Blocks until SIGTERM or SIGINT, which the caller has blocked in every thread,
// and keeps house meanwhile.
int WaitForSignal(const sigset_t& signals,
                  absl::FunctionRef<void(MonotonicTime)> keep_house,
                  Clock& clock) {
  const timespec interval = {.tv_sec = 5, .tv_nsec = 0};
  for (;;) {
    const int signal = sigtimedwait(&signals, nullptr, &interval);
    if (signal > 0) return signal;
    keep_house(clock.Now());
  }
}

// Where the server that listens on `listen` finds itself.
std::string OwnAddress(const std::string& listen, int port) {
  const std::string host = listen.substr(0, listen.rfind(':'));
  return absl::StrCat(host == "0.0.0.0" ? "127.0.0.1"
                      : host == "[::]"  ? "[::1]"
                                        : host,
                      ":", port);
}

// The service manager hears that the process lives when it answers itself.
class Watchdog {
 public:
  Watchdog(ServiceManager& services, std::string own_address)
      : services_(services), own_address_(std::move(own_address)) {}

  void Look(MonotonicTime now) {
    if (!services_.watchdog().has_value() || now < next_) return;
    const absl::StatusOr<bool> lives =
        AskHealth(own_address_, "liveness", *services_.watchdog() / 4);
    if (lives.ok() && *lives) {
      services_.Tell("WATCHDOG=1");
      next_ = now + *services_.watchdog() / 3;
    } else {
      spdlog::error("doesn't answer itself: {}",
                    std::string(lives.status().message()));
    }
  }

 private:
  ServiceManager& services_;
  const std::string own_address_;
  MonotonicTime next_ = MonotonicTime::InfinitePast();
};

// One line for `systemctl status`.
std::string ServiceStatus(const ModelManager& manager) {
  size_t serving = 0;
  const std::vector<VersionStatus> versions = manager.Index();
  for (const VersionStatus& version : versions) {
    if (version.state == VersionState::kServing) ++serving;
  }
  const std::string counts =
      absl::StrCat(serving, " of ", versions.size(), " versions served");
  for (const VersionStatus& version : versions) {
    if (version.state == VersionState::kServing || version.reason.empty()) {
      continue;
    }
    return absl::StrCat(counts, "; ", version.model, ":", version.version, " ",
                        Absl(VersionStateName(version.state)), ": ",
                        version.reason.substr(0, version.reason.find('\n')));
  }
  return counts;
}

// How often a repository that isn't there yet is looked for.
constexpr timespec kRepositoryInterval = {.tv_sec = 0, .tv_nsec = 100'000'000};

// Blocks until the repository can be read: a volume may be filled, or a link
// be made, after the launch. The signal that came first, or 0.
absl::StatusOr<int> AwaitRepository(const ModelRepository& repository,
                                    absl::Duration wait,
                                    const sigset_t& signals, Clock& clock) {
  absl::Status status = repository.CheckRoot();
  if (status.ok()) return 0;
  const MonotonicTime deadline = clock.Now() + wait;
  spdlog::info("{}; waiting for it, {} at most", Std(status.message()),
               absl::FormatDuration(wait));
  while (clock.Now() < deadline) {
    const int signal = sigtimedwait(&signals, nullptr, &kRepositoryInterval);
    if (signal > 0) return signal;
    status = repository.CheckRoot();
    if (status.ok()) return 0;
  }
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; waited for ",
                                   absl::FormatDuration(wait)));
}

int Serve(const Options& options) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, GpuGuard::kSignal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  ServiceManager services = ServiceManager::FromEnvironment();

  Clock& clock = Clock::Real();
  MetricRegistry metrics;
  RecentRefusals refusals(clock);
  const MemoryWatch memory(
      [] { return MemoryOfGroup(); },
      [](const GroupMemory& used) {
        spdlog::error(NearlyOutOfMemory(used, OwnMemory()));
      },
      clock);
  auto phase = [&metrics](const char* name) {
    metrics.Gauge(metric::kStartupPhaseSeconds, {{"phase", name}})
        .Set(absl::ToDoubleSeconds(ProcessAge()));
  };
  phase("runtime");
  const Toolchain toolchain = HostToolchain(
      options.frozen && options.cxx.empty() ? BuildersCxx() : options.cxx);
  metrics
      .Gauge(metric::kBuildInfo, {{"version", STOKER_VERSION},
                                  {"torch", toolchain.torch},
                                  {"march", toolchain.cpu.march}})
      .Set(1);

  const auto repository = ModelRepository::OpenLater(
      options.model_repository, options.model_name, options.default_device);
  if (options.repository_wait == absl::ZeroDuration()) {
    const absl::Status status = repository->CheckRoot();
    if (!status.ok()) return Die(status);
  }
  auto cache = KernelCache::Open({.root = options.cache,
                                  .layers = options.cache_layers,
                                  .refusals = &refusals},
                                 Files::Real(), metrics);
  if (!cache.ok()) {
    return Die(absl::Status(cache.status().code(),
                            absl::StrCat("--cache ", options.cache, ": ",
                                         cache.status().message())));
  }
  CompileBroker broker(WorkerOptions(options), (*cache)->entries(), clock,
                       metrics);
  GpuGuard gpus(options.cuda_library, {.clock = &clock,
                                       .metrics = &metrics,
                                       .run_limit = options.gpu_run_limit});
  // Before anything asks torch for a GPU. What is wrong is said by the models
  // that want one.
  if (options.default_device.is_gpu()) gpus.Find().IgnoreError();
  std::unique_ptr<ExecutableLoader> loader = MakeCpuLoader();
  const std::string machine = MachineId();
  FirstRun first_run(
      {.argv = {"/proc/self/exe", "first-run"}, .machine = machine},
      (*cache)->facts());
  const ReferenceRun reference(ReferenceOptions(options));
  ModelManagerOptions manager_options;
  manager_options.poll_interval = options.repository_poll;
  manager_options.rebucket_interval = options.rebucket;
  manager_options.cores = UsableCores();
  manager_options.toolchain = toolchain;
  manager_options.verify_promotions = options.promotion_checks;
  manager_options.require_cache = options.require_cache;
  manager_options.trust_verdicts = !options.recheck_promotions;
  manager_options.first_run = &first_run;
  manager_options.reference = &reference;
  manager_options.refusals = &refusals;
  manager_options.machine = machine;
  manager_options.gpus = [&gpus] { return gpus.Find(); };
  ModelManager manager(manager_options, *repository, cache->get(), &broker,
                       *loader, clock, metrics);
  const auto await_repository = [&] {
    return AwaitRepository(*repository, options.repository_wait, signals,
                           clock);
  };
  if (options.warm_only) {
    const absl::StatusOr<int> signal = await_repository();
    if (!signal.ok()) return Die(signal.status());
    if (*signal != 0) return kWarmInterrupted;
    const int exit_code = WarmOnly(manager, signals, clock);
    manager.Drain(clock.Now());
    return exit_code;
  }
  StatusReader status(manager, metrics, refusals, clock,
                      clock.Now() - ProcessAge());
  auto pages = PageServer::Start(
      options.metrics_listen,
      {{"/", [&] { return StatusPage(status.Read()); }},
       {"/status.json",
        [&] {
          return Page{"application/json", StatusJson(status.Read()), ""};
        }},
       {"/metrics", [&] {
          return Page{"text/plain; charset=utf-8", metrics.Text(), ""};
        }}});
  if (!pages.ok()) return Die(pages.status());
  RpcServerOptions rpc_options;
  rpc_options.address = options.listen;
  rpc_options.server_version = STOKER_VERSION;
  rpc_options.max_request_bytes =
      static_cast<size_t>(options.max_request_bytes);
  rpc_options.loops = std::clamp(manager_options.cores / 4, 1, 8);
  auto rpc = RpcServer::Start(rpc_options, manager, clock, metrics);
  if (!rpc.ok()) return Die(rpc.status());
  phase("listening");
  spdlog::info(
      "stokerd {} listening: gRPC port {}, metrics port {}; {} cores, {}, "
      "cache {}",
      STOKER_VERSION, (*rpc)->port(), (*pages)->port(), manager_options.cores,
      toolchain.cpu.march, options.cache);

  bool was_ready = false;  // lifecycle thread only
  manager.OnReadinessChange([&, server = rpc->get()] {
    server->UpdateHealth();
    const bool ready = manager.ServerReady();
    if (ready && !was_ready) {
      phase("ready");
      services.Tell("READY=1");
      spdlog::info("ready {:.3f} s after launch",
                   absl::ToDoubleSeconds(ProcessAge()));
    }
    was_ready = ready;
  });
  absl::StatusOr<int> signal = await_repository();
  if (!signal.ok()) return Die(signal.status());
  if (*signal == 0) {
    manager.Start();
    HeapTrimmer trimmer;
    Watchdog watchdog(services, OwnAddress(options.listen, (*rpc)->port()));
    MonotonicTime next_eviction = clock.Now() + absl::Seconds(5);
    const auto keep_house = [&](MonotonicTime now) {
      trimmer.Look(now);
      gpus.UpdateMetrics();
      Subprocess::ReapOrphans();
      watchdog.Look(now);
      services.TellStatus(ServiceStatus(manager));
      if (now < next_eviction) return;
      (*cache)->entries().Evict(options.cache_limits, clock.WallNow());
      next_eviction = now + kEvictionInterval;
    };
    signal = WaitForSignal(signals, keep_house, clock);
  }
  services.Tell("STOPPING=1");
  const bool gpu_lost = *signal == GpuGuard::kSignal;
  if (gpu_lost) GpuGuard::EndWithin(options.drain + absl::Seconds(1));
  const MonotonicTime deadline = clock.Now() + options.drain;
  spdlog::info("{}: draining for at most {}",
               gpu_lost ? "a GPU is lost" : strsignal(*signal),
               absl::FormatDuration(options.drain));
  // Running calls are answered by the batchers, so the models go after the
  // wire.
  (*rpc)->Shutdown(deadline);
  if (gpu_lost) {
    // Every call is answered. What is left would free memory of a GPU that
    // refuses every call, where torch's destructors abort.
    spdlog::info("stopped");
    std::fflush(nullptr);
    _exit(GpuGuard::kExitCode);
  }
  manager.Drain(deadline);
  rpc->reset();
  spdlog::info("stopped");
  return 0;
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "first-run") {
    _exit(stoker::FirstRunChild(argc, argv));
  }
  int exit_code = 0;
  const std::optional<stoker::Options> options =
      stoker::ParseOptions(argc, argv, exit_code);
  if (!options.has_value()) return exit_code;
  stoker::TuneAllocator();
  stoker::TuneLocks();
  stoker::MappedFile::OutliveLostPages();
  stoker::SetUpLog(options->log_level);
  stoker::QuietGrpc();
  exit_code = stoker::Run(*options);
  // libtorch's and gRPC's static destructors have nothing left to save and may
  // race with each other; every object of ours is gone by now.
  std::fflush(nullptr);
  _exit(exit_code);
}
