#include "main/options.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/cgroup_limits.h"
#include "compile_broker/compiler_folder.h"
#include "kernel_cache/cache_folder.h"
#include "main/gpu_options.h"
#include "main/memory_options.h"
#include "main/resource_options.h"
#include "main/seconds.h"
#include "main/telemetry_options.h"
#include "main/tls_options.h"
#include "main/wire_options.h"
#include "pipelines/tokenizer_library.h"
#include "wire/address.h"

namespace stoker {
namespace {

// A quarter of the memory: models, their runs and the page cache get the rest.
int64_t DefaultRequestMemory() {
  return std::clamp(MemoryLimit() / 4, int64_t{64} << 20, int64_t{1} << 44);
}

// One for each core, as far as memory goes: a compile of a small model takes
// about 1 GB, and what is being served needs some too.
int DefaultCompileJobs() {
  const int64_t fit = MemoryLimit() / (int64_t{2} << 30);
  return static_cast<int>(
      std::clamp<int64_t>(std::min<int64_t>(UsableCores(), fit), 1, 4));
}

// Of --model-control poll where no interval is given; Triton's.
constexpr double kPollSeconds = 15;

// "minilm" of "models/minilm/" and of "." there; of a folder that isn't there
// yet what its path says.
std::string NameOfFolder(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path found = fs::canonical(path, error);
  if (!error) return found.filename().string();
  const fs::path said = fs::absolute(path, error).lexically_normal();
  return (said.has_filename() ? said : said.parent_path()).filename().string();
}

// The command line by topic: each says which options it has, and what their
// numbers mean.
class CommandLine {
 public:
  CommandLine();
  std::optional<Options> Parse(int argc, char** argv, int& exit_code);

 private:
  // In the order of --help.
  void AddRepository();
  void AddCache();
  void AddDevices();
  void AddAddresses();
  void AddLifecycle();
  void AddCompiler();
  void AddChecks();

  // What CLI11 can't know by itself.
  void CheckRepository() const;
  void CheckControl() const;
  // The numbers as what they count.
  void Convert();

  Options options_;
  int64_t request_mb_ = DefaultRequestMemory() >> 20;
  std::string default_device_ = "cpu";
  std::string metrics_compat_;
  std::string unlisted_ = "isolate";
  std::string control_;  // empty: by the interval
  int64_t load_files_mb_ = options_.overrides.max_bytes >> 20;
  double poll_seconds_ = 0;
  double wait_seconds_ = 0;
  double rebucket_seconds_ = 0;
  double drain_seconds_ = absl::ToDoubleSeconds(options_.drain);
  double compile_seconds_ = absl::ToDoubleSeconds(options_.compile_timeout);
  int64_t compile_mb_ = options_.compile_memory_bytes >> 20;
  int64_t cache_mb_ = 0;
  int cache_days_ = 0;
  bool no_checks_ = false;
  bool no_sandbox_ = false;

  CLI::App app_{
      "stokerd serves exported PyTorch programs over gRPC and HTTP: it "
      "compiles "
      "each shape bucket once, proves it right, keeps it on disk and answers "
      "from it."};
};

CommandLine::CommandLine() {
  options_.cache = DefaultCacheFolder();
  options_.compiler_folder = DefaultCompilerFolder();
  options_.compile_jobs = DefaultCompileJobs();
  app_.set_version_flag("--version", STOKER_VERSION);
  app_.get_formatter()->column_width(34);
  AddRepository();
  AddCache();
  AddDevices();
  AddAddresses();
  AddTlsOptions(app_, options_.tls, options_.metrics_tls);
  AddWireOptions(app_, options_.wire, options_.metrics_connections,
                 options_.proxies, options_.port_cpus);
  AddLifecycle();
  AddCompiler();
  AddChecks();
  app_.add_option("--log-level", options_.log_level,
                  "least severity that is logged")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  AddTelemetryOptions(app_, options_.telemetry);
}

void CommandLine::AddRepository() {
  app_.add_option(
          "--model-repository", options_.model_repository,
          "folder with <model>/<version>/model.pt2, or with model.pt2 itself")
      ->required();
  app_.add_option("--model-name", options_.model_name,
                  "name of the model when the folder holds model.pt2 itself; "
                  "else the folder's");
  app_.add_option("--operator-library", options_.operator_libraries,
                  "NAME=FILE: a shared library with the operators of "
                  "torch.ops.NAME that programs call; may be given again");
  app_.add_option("--unlisted-operators", unlisted_,
                  "what becomes of programs with operators that values might "
                  "lead astray: isolate runs each request in a process of its "
                  "own, refuse doesn't load them")
      ->check(CLI::IsMember({"isolate", "refuse"}))
      ->capture_default_str();
}

void CommandLine::AddCache() {
  app_.add_option("--cache", options_.cache, "folder of compiled artifacts")
      ->capture_default_str();
  app_.add_option("--cache-layer", options_.cache_layers,
                  "read-only folder of compiled artifacts below it; may be "
                  "given again, the first is asked first")
      ->check(CLI::ExistingDirectory);
  app_.add_option(
          "--trust", options_.trust,
          "public key (PEM) that must have signed each --cache-layer, "
          "or another one that is given; layers are unpacked packs then")
      ->check(CLI::ExistingFile);
  app_.add_option(
          "--cache-max-mb", cache_mb_,
          "size of the whole folder at which scratch goes, and then the "
          "least recently used artifacts; 0: nothing does")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  app_.add_option(
          "--cache-max-age-days", cache_days_,
          "time after which an artifact that nobody used goes; 0: never")
      ->check(CLI::Range(0, 36500))
      ->capture_default_str();
  app_.add_flag("--require-cache", options_.require_cache,
                "refuse to become ready when the cache lacks a bucket");
  app_.add_flag("--warm-only", options_.warm_only,
                "fill the cache for the repository, print a summary and exit");
}

void CommandLine::AddDevices() {
  app_.add_option("--default-device", default_device_,
                  "where models run whose model.yaml doesn't say: cpu, cuda:N, "
                  "cuda:auto, cuda:GPU-<uuid> or cuda:MIG-<uuid>")
      ->check([](const std::string& text) {
        const absl::StatusOr<Device> device = ParseDevice(text);
        return device.ok() ? "" : std::string(device.status().message());
      })
      ->capture_default_str();
  AddGpuOptions(app_, options_.gpu);
  options_.tokenizer_library = DefaultTokenizerLibrary();
  app_.add_option("--tokenizer-library", options_.tokenizer_library,
                  "libstoker_tokenizer.so, which is opened where a pipeline "
                  "has a tokenizer; beside stokerd or in ../lib/stoker unless "
                  "given");
  AddMemoryOptions(app_, options_.memory_budget);
  AddResourceOptions(app_, options_.resources);
}

void CommandLine::AddAddresses() {
  app_.add_option("--listen", options_.listen,
                  "gRPC address: host:port, unix:PATH, or fd:NAME of a socket "
                  "that the service manager passes; port 0: any")
      ->check([](const std::string& text) {
        return std::string(CheckListenAddress(text).message());
      })
      ->capture_default_str();
  app_.add_option_function<std::string>(
          "--http-listen",
          [this](const std::string& text) {
            options_.http_listen = text == "none" ? "" : text;
          },
          "HTTP address of the same protocol, likewise; none: it is not "
          "offered")
      ->check([](const std::string& text) {
        return text == "none" ? ""
                              : std::string(CheckListenAddress(text).message());
      })
      ->default_str(options_.http_listen);
  app_.add_option("--metrics-listen", options_.metrics_listen,
                  "HTTP address of the status page and /metrics, likewise")
      ->envname("STOKER_METRICS_LISTEN")
      ->check([](const std::string& text) {
        return std::string(CheckListenAddress(text).message());
      })
      ->capture_default_str();
  app_.add_option("--metrics-compat", metrics_compat_,
                  "triton: /metrics has the nv_inference_* metrics as well")
      ->check(CLI::IsMember({"triton"}));
  app_.add_option("--policy", options_.policy,
                  "who may do what: YAML, read again when it changes")
      ->check(CLI::ExistingFile);
  app_.add_flag("--allow-client-shm", options_.allow_client_shm,
                "let clients on this host have tensors in POSIX shared memory, "
                "which lets them reach every segment that the server's user "
                "can");
}

void CommandLine::AddLifecycle() {
  app_.add_option(
          "--model-control", control_,
          "what decides about models: none reads the repository once, poll "
          "follows it, explicit leaves it to clients; poll where "
          "--repository-poll-seconds is given, else none")
      ->check(CLI::IsMember({"none", "poll", "explicit"}));
  app_.add_option("--load-model", options_.load_models,
                  "model to load at the start with --model-control explicit, "
                  "\"*\" for all; may be given again");
  app_.add_option("--max-load-files-mb", load_files_mb_,
                  "size of the files that came with requests for loads and are "
                  "still served, together; 0: none are taken")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->capture_default_str();
  app_.add_option("--max-loads-with-files", options_.overrides.max_loads,
                  "their number")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app_.add_option("--load-files-folder", options_.overrides.folder,
                  "folder in which they are written, and taken from again as "
                  "soon as they are open; the system's for temporary files "
                  "unless given")
      ->check(CLI::ExistingDirectory);
  app_.add_option("--repository-poll-seconds", poll_seconds_,
                  "how often the repository is read again; 0: never")
      ->check(Seconds(/*zero_allowed=*/true))
      ->capture_default_str();
  app_.add_option("--repository-wait-seconds", wait_seconds_,
                  "how long a repository that isn't there yet is waited for, "
                  "behind an open port; 0: it has to be there")
      ->check(Seconds(/*zero_allowed=*/true))
      ->capture_default_str();
  app_.add_option(
          "--rebucket-seconds", rebucket_seconds_,
          "how often traffic is looked at again for 'buckets: auto' and "
          "'pays_back_within', and buckets are compiled behind it; 0: at load "
          "only")
      ->check(Seconds(/*zero_allowed=*/true))
      ->capture_default_str();
  app_.add_option("--drain-seconds", drain_seconds_,
                  "time for requests to finish after SIGTERM")
      ->check(Seconds(/*zero_allowed=*/true))
      ->capture_default_str();
  app_.add_option(
          "--max-request-memory-mb", request_mb_,
          "what requests and their answers may hold together; a message "
          "may be half as large")
      ->check(CLI::Range(int64_t{16}, int64_t{1} << 24))
      ->capture_default_str();
}

void CommandLine::AddCompiler() {
  app_.add_flag("--no-compile-sandbox", no_sandbox_,
                "let compile jobs do what this user can: where the compiler "
                "lies in a place that the sandbox doesn't know");
  app_.add_flag("--allow-passes", options_.allow_passes,
                "run the Python files that model.yaml names under "
                "compile.passes, which is code of the models' authors");
  app_.add_option("--compiler-python", options_.compiler_python,
                  "Python that has torch 2.11.0")
      ->capture_default_str();
  app_.add_option("--compiler-folder", options_.compiler_folder,
                  "folder that holds the Python package 'compiler'")
      ->capture_default_str();
  app_.add_option("--cxx", options_.cxx,
                  "compiler in the keys of artifacts, such as \"g++ 12.2.0\"; "
                  "the g++ here unless given, and with --frozen the one that "
                  "stokerd was built beside");
  app_.add_flag("--fixed-threads", options_.fixed_threads,
                "run on as many compute threads as the cores give, even where "
                "other processes have the cores");
  app_.add_flag("--no-compile,--frozen", options_.frozen,
                "never start a compiler; what the cache lacks is served eager");
  app_.add_option("--compile-jobs", options_.compile_jobs, "compiles at a time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app_.add_option("--compile-timeout-seconds", compile_seconds_,
                  "limit of one compile")
      ->check(Seconds(/*zero_allowed=*/false))
      ->capture_default_str();
  app_.add_option("--compile-memory-mb", compile_mb_, "limit of one compile")
      ->check(CLI::Range(int64_t{256}, int64_t{1} << 24))
      ->capture_default_str();
}

void CommandLine::AddChecks() {
  app_.add_flag("--no-promotion-checks", no_checks_,
                "serve compiled code without comparing it with eager first");
  app_.add_flag("--recheck-promotions", options_.recheck_promotions,
                "compare and time again what has a verdict in the cache");
}

void CommandLine::CheckRepository() const {
  if (wait_seconds_ > 0) return;
  const std::string missing = CLI::ExistingDirectory(options_.model_repository);
  if (!missing.empty()) {
    throw CLI::ValidationError("--model-repository", missing);
  }
}

void CommandLine::CheckControl() const {
  if (poll_seconds_ > 0 && !control_.empty() && control_ != "poll") {
    throw CLI::ValidationError(
        "--repository-poll-seconds",
        absl::StrCat("expected --model-control poll, got ", control_));
  }
  if (!options_.load_models.empty() && control_ != "explicit") {
    throw CLI::ValidationError(
        "--load-model", absl::StrCat("expected --model-control explicit, got ",
                                     control_.empty() ? "none" : control_));
  }
}

void CommandLine::Convert() {
  options_.explicit_control = control_ == "explicit";
  if (control_ == "poll" && poll_seconds_ == 0) {
    poll_seconds_ = kPollSeconds;
  }
  if (options_.model_name.empty()) {
    options_.model_name = NameOfFolder(options_.model_repository);
  }
  options_.triton_metrics = metrics_compat_ == "triton";
  options_.default_device = *ParseDevice(default_device_);
  options_.isolate_unlisted = unlisted_ == "isolate";
  options_.repository_poll = absl::Seconds(poll_seconds_);
  options_.repository_wait = absl::Seconds(wait_seconds_);
  options_.rebucket = absl::Seconds(rebucket_seconds_);
  options_.drain = absl::Seconds(drain_seconds_);
  options_.max_request_bytes = request_mb_ << 20;
  options_.overrides.max_bytes = load_files_mb_ << 20;
  options_.compile_timeout = absl::Seconds(compile_seconds_);
  options_.compile_memory_bytes = compile_mb_ << 20;
  options_.promotion_checks = !no_checks_;
  options_.compile_sandbox = !no_sandbox_;
  if (options_.frozen) options_.compiler_python.clear();
  options_.cache_limits.max_bytes = cache_mb_ << 20;
  if (cache_days_ > 0)
    options_.cache_limits.max_age = absl::Hours(24 * cache_days_);
}

std::optional<Options> CommandLine::Parse(int argc, char** argv,
                                          int& exit_code) {
  try {
    app_.parse(argc, argv);
    CheckRepository();
    CheckControl();
  } catch (const CLI::ParseError& error) {
    const bool asked =
        error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
    if (asked) {
      app_.exit(error);
    } else {
      std::fprintf(stderr, "stokerd: %s (see stokerd --help)\n", error.what());
    }
    exit_code = asked ? 0 : 2;
    return std::nullopt;
  }
  Convert();
  return std::move(options_);
}

}  // namespace

std::optional<Options> ParseOptions(int argc, char** argv, int& exit_code) {
  return CommandLine().Parse(argc, argv, exit_code);
}

}  // namespace stoker
