// A thread that has a queue end what has waited too long, at the time at which
// it has.
//
// It is woken for the earliest time that it was told of, which may pass for
// nothing: a task that ran meanwhile leaves it as it is, so that a busy queue
// costs one wake-up per timeout, not one per task.
//
// Thread-safe. WakeBy may be called with the queue's own lock held: `expire`
// never runs with a lock of the timer's.
#pragma once

#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/monotonic_time.h"
#include "base/thread.h"

namespace stoker {

class ExpiryTimer {
 public:
  // `expire` ends what is due and says what is due next, as far as it knows.
  // The clock outlives this object.
  ExpiryTimer(Clock& clock,
              std::function<MonotonicTime(MonotonicTime now)> expire)
      : clock_(clock), expire_(std::move(expire)) {}

  void Start(const std::string& thread_name);
  // Joins the thread. One caller at a time; idempotent.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

  // Something is due then.
  void WakeBy(MonotonicTime due) ABSL_LOCKS_EXCLUDED(mu_) {
    if (due != MonotonicTime::InfiniteFuture()) WakeEarlier(due);
  }

 private:
  void WakeEarlier(MonotonicTime due) ABSL_LOCKS_EXCLUDED(mu_);
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);

  Clock& clock_;
  const std::function<MonotonicTime(MonotonicTime)> expire_;
  absl::Mutex mu_;
  MonotonicTime wake_ ABSL_GUARDED_BY(mu_) = MonotonicTime::InfiniteFuture();
  bool changed_ ABSL_GUARDED_BY(mu_) = false;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;
};

}  // namespace stoker
