// The daemon's GPUs: opened when the first model asks for one, watched from
// then on, and the end of the process when one is lost.
//
// Thread-safe.
#pragma once

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
  // Sent to this process then; every thread blocks it.
  static constexpr int kSignal = SIGUSR1;

  // What is behind the options outlives this object.
  GpuGuard(std::string library, GpuOptions options);

  // The GPUs, opened now if they weren't. FAILED_PRECONDITION as OpenGpus.
  absl::StatusOr<Gpus*> Find() ABSL_LOCKS_EXCLUDED(mu_);
  // Once every few seconds.
  void UpdateMetrics() ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the process with kExitCode after `patience`, whatever it does until
  // then: a device thread that waits for a hung GPU can't be joined.
  static void EndWithin(absl::Duration patience);

 private:
  const std::string library_;
  GpuOptions options_;
  absl::Mutex mu_;
  std::unique_ptr<Gpus> gpus_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
