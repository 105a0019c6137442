// stokerd from its options to its exit code: the composition root. Members are
// made in the order in which they own each other, and end in the reverse.
//
// Everything here is called by the main thread, which has blocked `signals` in
// every thread; what other threads call is said.
#pragma once

#include <signal.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "access/gate.h"
#include "base/clock.h"
#include "base/free_cores.h"
#include "base/memory_watch.h"
#include "compile_broker/compile_broker.h"
#include "kernel_cache/kernel_cache.h"
#include "main/drain_limit.h"
#include "main/gpu_guard.h"
#include "main/health_pages.h"
#include "main/options.h"
#include "main/profile_page.h"
#include "main/service_manager.h"
#include "metrics/metrics.h"
#include "metrics/recent_refusals.h"
#include "models/first_run.h"
#include "models/isolated_eager.h"
#include "models/model_manager.h"
#include "models/reference_run.h"
#include "pipelines/tokenizer_library.h"
#include "repository/model_repository.h"
#include "rpc/rpc_server.h"
#include "runner/executable_loader.h"
#include "runner/toolchain.h"
#include "status/page_server.h"
#include "status/status.h"
#include "telemetry/telemetry.h"
#include "wire/passed_sockets.h"

namespace stoker {

class Daemon {
 public:
  // Blocks, in the calling thread and those that it makes, the signals that
  // end a daemon; from then on they are waited for.
  static sigset_t BlockSignals();

  // Opens the repository (unless it is to be waited for), the cache and what
  // compiles; nothing listens yet. The status is for people, with the flag.
  static absl::StatusOr<std::unique_ptr<Daemon>> Open(const Options& options,
                                                      const sigset_t& signals);

  ~Daemon() { profile_.Stop(); }  // while its answers can be sent

  // --warm-only: fills the cache, prints what came of it; the exit code. An
  // error where there is no repository.
  absl::StatusOr<int> WarmUp();

  // Serves until a signal comes, then drains; the exit code. An error where it
  // can't listen, or there is no repository. Does not return when a GPU is
  // lost.
  absl::StatusOr<int> Serve();

 private:
  Daemon(const Options& options, const sigset_t& signals, PassedSockets passed);

  // Open's steps.
  absl::Status OpenTls();
  absl::Status OpenPolicy();
  absl::Status OpenOperators();
  absl::Status OpenFiles();
  void OpenModels();

  // Serve's steps.
  absl::Status Listen();
  Pages MakePages();
  void AnnounceReadiness();  // on the lifecycle thread, from then on
  // The signal that ended it.
  int KeepHouse();
  void Drain(int signal);

  void RecordPhase(const char* name);
  // The signal that came first, or 0.
  absl::StatusOr<int> AwaitRepository() const;

  const Options options_;
  const sigset_t signals_;
  PassedSockets passed_;
  ServiceManager services_;
  Clock& clock_;
  std::optional<DrainLimit> limit_;  // of what is below, from the drain on
  MetricRegistry metrics_;
  RecentRefusals refusals_;
  const MemoryWatch memory_;
  const Toolchain toolchain_;
  const std::string machine_;

  std::unique_ptr<Telemetry> telemetry_;
  std::unique_ptr<ModelRepository> repository_;
  std::unique_ptr<KernelCache> cache_;
  std::unique_ptr<CompileBroker> broker_;
  GpuGuard gpus_;
  std::unique_ptr<FreeCores> free_cores_;  // null: --fixed-threads
  std::unique_ptr<ExecutableLoader> loader_;
  std::unique_ptr<FirstRun> first_run_;
  IsolatedEager::Options isolated_;
  const ReferenceRun reference_;
  std::unique_ptr<TokenizerLibrary> tokenizers_;
  std::unique_ptr<ModelManager> manager_;

  std::unique_ptr<TlsContext> tls_;  // null: plain text
  std::unique_ptr<Gate> gate_;       // null: there is no policy
  std::unique_ptr<StatusReader> status_reader_;
  std::unique_ptr<RpcServer> rpc_;
  HealthPages health_;
  ProfilePage profile_{clock_};
  std::unique_ptr<PageServer> pages_;  // asks what is above
  bool was_ready_ = false;             // lifecycle thread only
};

}  // namespace stoker
