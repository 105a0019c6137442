// What an error of CUDA means for the GPU that it came from, and whether that
// GPU can still be used. Knows CUDA's error numbers, not CUDA.
//
// A sticky error (an illegal access, a device assertion, an uncorrectable
// memory error) poisons the process's context: every later call fails, on every
// thread, and only another process can use the GPU again. So it is told once,
// to `on_lost`, and from then on every run is refused before it begins.
//
// GpuHealth is thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace stoker {

enum class GpuFault {
  kNone,
  kMemory,   // out of memory: the next run may succeed
  kCapture,  // a graph could not be captured: nothing else is harmed
  kSticky,   // the context is poisoned
  kGone,     // the device or its driver isn't there any more
  kOther,
};

// Of a cudaError_t's number.
GpuFault FaultOf(int cuda_error);

class GpuHealth {
 public:
  using OnLost = std::function<void(const std::string& why)>;

  // `device`: "cuda:0". `on_lost` is called at most once, from the thread that
  // finds out, without a lock; it must not block.
  GpuHealth(std::string device, OnLost on_lost);

  // OK, or UNAVAILABLE with what happened, once the GPU is lost.
  absl::Status Check() const ABSL_LOCKS_EXCLUDED(mu_);

  // What a failed call amounts to: RESOURCE_EXHAUSTED (memory),
  // FAILED_PRECONDITION (capture), UNAVAILABLE (lost, now or before), INTERNAL.
  // `text` is CUDA's or torch's own.
  absl::Status Report(int cuda_error, absl::string_view what,
                      absl::string_view text) ABSL_LOCKS_EXCLUDED(mu_);

  // A run that doesn't end: the GPU is lost.
  void ReportWedged(absl::Duration since) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Lose(std::string why) ABSL_LOCKS_EXCLUDED(mu_);

  const std::string device_;
  const OnLost on_lost_;
  std::atomic<bool> lost_{false};  // why_ is set
  mutable absl::Mutex mu_;
  std::string why_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
