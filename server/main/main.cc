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
#include "base/log_levels.h"
#include "base/lost_pages.h"
#include "main/daemon.h"
#include "main/first_run_child.h"
#include "main/isolated_runs.h"
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
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  log::SetLevels(log::Levels::From(level));
}

int Die(const absl::Status& status) {
  std::fprintf(stderr, "stokerd: %s\n", std::string(status.message()).c_str());
  return 1;
}

int Run(const Options& options) {
  const sigset_t signals = Daemon::BlockSignals();
  const absl::StatusOr<std::unique_ptr<Daemon>> daemon =
      Daemon::Open(options, signals);
  if (!daemon.ok()) return Die(daemon.status());
  const absl::StatusOr<int> exit_code =
      options.warm_only ? (*daemon)->WarmUp() : (*daemon)->Serve();
  return exit_code.ok() ? *exit_code : Die(exit_code.status());
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "first-run") {
    _exit(stoker::FirstRunChild(argc, argv));
  }
  if (argc > 1 && std::string_view(argv[1]) == "isolated-runs") {
    _exit(stoker::IsolatedRuns(argc, argv));
  }
  int exit_code = 0;
  const std::optional<stoker::Options> options =
      stoker::ParseOptions(argc, argv, exit_code);
  if (!options.has_value()) return exit_code;
  stoker::TuneAllocator();
  stoker::TuneLocks();
  stoker::OutliveLostPages();
  stoker::SetUpLog(options->log_level);
  stoker::QuietGrpc();
  exit_code = stoker::Run(*options);
  // libtorch's and gRPC's static destructors have nothing left to save and may
  // race with each other; every object of ours is gone by now.
  std::fflush(nullptr);
  _exit(exit_code);
}
