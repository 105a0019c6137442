// The daemon's GPUs: opened when the first model asks for one, watched from
// then on, and the end of the process when one is lost.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <csignal>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runner/gpus.h"

namespace stoker {

class GpuGuard {
 public:
  // Of the process when a GPU is lost: only another one can use it again, so
  // whoever keeps the daemon running has to start it again.
  static constexpr int kExitCode = 5;
  // Sent to this process then, which every thread blocks: it ends as if it had
  // been asked to, and `lost` says why.
  static constexpr int kSignal = SIGTERM;

  // What is behind the options outlives this object. When a GPU is lost, the
  // process has `patience` to end, and then ends with kExitCode whatever it
  // does: a device thread that waits for a hung GPU can't be joined.
  GpuGuard(std::string library, GpuOptions options, absl::Duration patience);

  // The GPUs, opened now if they weren't. FAILED_PRECONDITION as OpenGpus.
  absl::StatusOr<Gpus*> Find() ABSL_LOCKS_EXCLUDED(mu_);
  // Once every few seconds.
  void UpdateMetrics() ABSL_LOCKS_EXCLUDED(mu_);

  // Whether one was lost.
  bool lost() const { return lost_.load(); }

 private:
  const std::string library_;
  GpuOptions options_;
  std::atomic<bool> lost_ = false;
  absl::Mutex mu_;
  std::unique_ptr<Gpus> gpus_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
