// Notices a run that doesn't end: a kernel in an endless loop holds its device
// thread for ever, which waits without a limit.
//
// Thread-safe. An Entry's Begin and End are one thread's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/thread.h"

namespace stoker {

class RunWatch {
 public:
  using OnWedged = std::function<void(absl::Duration since)>;
  class Entry {
   public:
    explicit Entry(Clock& clock) : clock_(clock) {}
    void Begin() { since_.store(clock_.Now().ToNanoseconds()); }
    void End() { since_.store(0); }

   private:
    friend class RunWatch;
    Clock& clock_;
    std::atomic<int64_t> since_{0};  // 0: nothing runs
  };

  // Looks a few times within each `limit`; `on_wedged` is called at most once,
  // on a thread of this object. The clock outlives it.
  RunWatch(Clock& clock, absl::Duration limit, OnWedged on_wedged);
  ~RunWatch();

  // For one device thread; watched as long as it is there.
  std::shared_ptr<Entry> Add() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Watch();
  absl::Duration LongestLocked(MonotonicTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock& clock_;
  const absl::Duration limit_;
  const OnWedged on_wedged_;
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::weak_ptr<Entry>> entries_ ABSL_GUARDED_BY(mu_);
  Thread thread_;  // last
};

}  // namespace stoker
