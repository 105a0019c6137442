// What became of versions, told to the thread that decides about them. Shared
// with those who tell it, as some of them may outlive that thread.
//
// Thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"

namespace stoker {

class LifecycleEvents {
 public:
  using Event = std::function<void()>;

  void Post(Event event) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    events_.push_back(std::move(event));
  }

  // The same, but false, and nothing is posted, once it is closed: what was
  // taken is told by Await.
  bool PostUnlessClosed(Event event) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (!closed_) events_.push_back(std::move(event));
    return !closed_;
  }

  // Await returns from now on.
  void Close() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    closed_ = true;
  }
  bool closed() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return closed_;
  }

  // What was posted since the last call, in order; waits for the first of them
  // until `deadline`.
  std::deque<Event> Await(Clock& clock, MonotonicTime deadline)
      ABSL_LOCKS_EXCLUDED(mu_) {
    std::deque<Event> taken;
    absl::MutexLock lock(&mu_);
    const auto awake = [this] {
      mu_.AssertReaderHeld();
      return !events_.empty() || closed_;
    };
    clock.AwaitWithDeadline(&mu_, absl::Condition(&awake), deadline);
    taken.swap(events_);
    return taken;
  }

 private:
  mutable absl::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<Event> events_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
