#include "main/options.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/cgroup_limits.h"
#include "compile_broker/compiler_folder.h"
#include "kernel_cache/cache_folder.h"
#include "runner/gpus.h"

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

std::string CheckAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string port =
      colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool digits =
      !port.empty() && port.size() <= 5 &&
      std::all_of(port.begin(), port.end(),
                  [](unsigned char c) { return std::isdigit(c); });
  if (colon == 0 || !digits || std::stoi(port) > 65535) {
    return absl::StrCat("expected host:port with a port of 0 to 65535, got \"",
                        text, "\"");
  }
  return "";
}

// A finite number of seconds; CLI11's own check lets "nan" pass and prints the
// largest double in full.
CLI::Validator Seconds(bool zero_allowed) {
  auto check = [zero_allowed](const std::string& text) -> std::string {
    double value = 0;
    if (absl::SimpleAtod(text, &value) && std::isfinite(value) &&
        (value > 0 || (zero_allowed && value == 0))) {
      return "";
    }
    return absl::StrCat("expected a number of seconds, ",
                        zero_allowed ? "at least 0" : "above 0", ", got \"",
                        text, "\"");
  };
  return CLI::Validator(check, zero_allowed ? ">= 0" : "> 0");
}

}  // namespace

std::optional<Options> ParseOptions(int argc, char** argv, int& exit_code) {
  Options options;
  options.cache = DefaultCacheFolder();
  options.compiler_folder = DefaultCompilerFolder();
  options.cuda_library = DefaultGpuLibrary();
  options.compile_jobs = DefaultCompileJobs();

  int64_t request_mb = DefaultRequestMemory() >> 20;
  std::string default_device = "cpu";
  double gpu_run_seconds = absl::ToDoubleSeconds(options.gpu_run_limit);
  double poll_seconds = 0;
  double wait_seconds = 0;
  double rebucket_seconds = 0;
  double drain_seconds = absl::ToDoubleSeconds(options.drain);
  double compile_seconds = absl::ToDoubleSeconds(options.compile_timeout);
  int64_t compile_mb = options.compile_memory_bytes >> 20;
  int64_t cache_mb = 0;
  int cache_days = 0;
  bool no_checks = false;

  CLI::App app{
      "stokerd serves exported PyTorch programs over gRPC: it compiles each "
      "shape "
      "bucket once, proves it right, keeps it on disk and answers from it."};
  app.set_version_flag("--version", STOKER_VERSION);
  app.get_formatter()->column_width(34);
  app.add_option(
         "--model-repository", options.model_repository,
         "folder with <model>/<version>/model.pt2, or with model.pt2 itself")
      ->required();
  app.add_option("--model-name", options.model_name,
                 "name of the model when the folder holds model.pt2 itself; "
                 "else the folder's");
  app.add_option("--cache", options.cache, "folder of compiled artifacts")
      ->capture_default_str();
  app.add_option("--cache-layer", options.cache_layers,
                 "read-only folder of compiled artifacts below it; may be "
                 "given again, the first is asked first")
      ->check(CLI::ExistingDirectory);
  app.add_option("--cache-max-mb", cache_mb,
                 "size at which the least recently used artifacts go; 0: none "
                 "do")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--cache-max-age-days", cache_days,
                 "time after which an artifact that nobody used goes; 0: never")
      ->check(CLI::Range(0, 36500))
      ->capture_default_str();
  app.add_flag("--require-cache", options.require_cache,
               "refuse to become ready when the cache lacks a bucket");
  app.add_flag("--warm-only", options.warm_only,
               "fill the cache for the repository, print a summary and exit");
  app.add_option("--default-device", default_device,
                 "where models run whose model.yaml doesn't say: cpu, cuda:N, "
                 "cuda:auto, cuda:GPU-<uuid> or cuda:MIG-<uuid>")
      ->check([](const std::string& text) {
        const absl::StatusOr<Device> device = ParseDevice(text);
        return device.ok() ? "" : std::string(device.status().message());
      })
      ->capture_default_str();
  app.add_option("--cuda-library", options.cuda_library,
                 "libstoker_cuda.so, which is opened where a model asks for a "
                 "GPU; beside stokerd or in ../lib/stoker unless given");
  app.add_option("--gpu-run-limit-seconds", gpu_run_seconds,
                 "time after which a run on a GPU counts as hung, and the "
                 "process ends")
      ->check(Seconds(/*zero_allowed=*/false))
      ->capture_default_str();
  app.add_option("--listen", options.listen, "gRPC address; port 0: any")
      ->check(CheckAddress)
      ->capture_default_str();
  app.add_option("--metrics-listen", options.metrics_listen,
                 "HTTP address of the status page and /metrics; port 0: any")
      ->check(CheckAddress)
      ->capture_default_str();
  app.add_option("--repository-poll-seconds", poll_seconds,
                 "how often the repository is read again; 0: never")
      ->check(Seconds(/*zero_allowed=*/true))
      ->capture_default_str();
  app.add_option("--repository-wait-seconds", wait_seconds,
                 "how long a repository that isn't there yet is waited for, "
                 "behind an open port; 0: it has to be there")
      ->check(Seconds(/*zero_allowed=*/true))
      ->capture_default_str();
  app.add_option(
         "--rebucket-seconds", rebucket_seconds,
         "how often traffic is looked at again for 'buckets: auto' and "
         "'pays_back_within', and buckets are compiled behind it; 0: at load "
         "only")
      ->check(Seconds(/*zero_allowed=*/true))
      ->capture_default_str();
  app.add_option("--drain-seconds", drain_seconds,
                 "time for requests to finish after SIGTERM")
      ->check(Seconds(/*zero_allowed=*/true))
      ->capture_default_str();
  app.add_option("--max-request-memory-mb", request_mb,
                 "what requests and their answers may hold together; a message "
                 "may be half as large")
      ->check(CLI::Range(int64_t{16}, int64_t{1} << 24))
      ->capture_default_str();
  app.add_option("--compiler-python", options.compiler_python,
                 "Python that has torch 2.11.0")
      ->capture_default_str();
  app.add_option("--compiler-folder", options.compiler_folder,
                 "folder that holds the Python package 'compiler'")
      ->capture_default_str();
  app.add_option("--cxx", options.cxx,
                 "compiler in the keys of artifacts, such as \"g++ 12.2.0\"; "
                 "the g++ here unless given, and with --frozen the one that "
                 "stokerd was built beside");
  app.add_flag("--no-compile,--frozen", options.frozen,
               "never start a compiler; what the cache lacks is served eager");
  app.add_option("--compile-jobs", options.compile_jobs, "compiles at a time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--compile-timeout-seconds", compile_seconds,
                 "limit of one compile")
      ->check(Seconds(/*zero_allowed=*/false))
      ->capture_default_str();
  app.add_option("--compile-memory-mb", compile_mb, "limit of one compile")
      ->check(CLI::Range(int64_t{256}, int64_t{1} << 24))
      ->capture_default_str();
  app.add_flag("--no-promotion-checks", no_checks,
               "serve compiled code without comparing it with eager first");
  app.add_flag("--recheck-promotions", options.recheck_promotions,
               "compare and time again what has a verdict in the cache");
  app.add_option("--log-level", options.log_level,
                 "least severity that is logged")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    if (wait_seconds == 0) {
      const std::string missing =
          CLI::ExistingDirectory(options.model_repository);
      if (!missing.empty()) {
        throw CLI::ValidationError("--model-repository", missing);
      }
    }
  } catch (const CLI::ParseError& error) {
    const bool asked =
        error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
    if (asked) {
      app.exit(error);
    } else {
      std::fprintf(stderr, "stokerd: %s (see stokerd --help)\n", error.what());
    }
    exit_code = asked ? 0 : 2;
    return std::nullopt;
  }
  if (options.model_name.empty()) {
    options.model_name = NameOfFolder(options.model_repository);
  }
  options.default_device = *ParseDevice(default_device);
  options.gpu_run_limit = absl::Seconds(gpu_run_seconds);
  options.repository_poll = absl::Seconds(poll_seconds);
  options.repository_wait = absl::Seconds(wait_seconds);
  options.rebucket = absl::Seconds(rebucket_seconds);
  options.drain = absl::Seconds(drain_seconds);
  options.max_request_bytes = request_mb << 20;
  options.compile_timeout = absl::Seconds(compile_seconds);
  options.compile_memory_bytes = compile_mb << 20;
  options.promotion_checks = !no_checks;
  if (options.frozen) options.compiler_python.clear();
  options.cache_limits.max_bytes = cache_mb << 20;
  if (cache_days > 0)
    options.cache_limits.max_age = absl::Hours(24 * cache_days);
  return options;
}

}  // namespace stoker
