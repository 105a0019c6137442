// Keeps what is told for a while, when somebody asks for that.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "telemetry/request_record.h"
#include "telemetry/timeline.h"
#include "telemetry/work_record.h"

namespace stoker {

class TimelineRecorder {
 public:
  // What one recording holds; the rest is counted.
  static constexpr size_t kMostRequests = 32'768;
  static constexpr size_t kMostWork = 4'096;

  explicit TimelineRecorder(Clock& clock) : clock_(clock) {}

  // False: one is under way.
  bool Begin() ABSL_LOCKS_EXCLUDED(mu_);
  // Of the one that Begin began.
  Recording End() ABSL_LOCKS_EXCLUDED(mu_);

  bool records() const { return records_.load(std::memory_order_relaxed); }
  // Kept while it records.
  void Put(const RequestRecord& record) ABSL_LOCKS_EXCLUDED(mu_);
  void Put(const WorkRecord& record) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Clock& clock_;
  std::atomic<bool> records_ = false;
  absl::Mutex mu_;
  MonotonicTime began_ ABSL_GUARDED_BY(mu_);
  Recording recording_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
