// A clock that moves only when a test says so: Advance moves both its times,
// StepWall the time of day alone. Waiting on it takes no real time, and a test
// can know that a thread is waiting before it moves the time on:
//
//   FakeClock clock;
//   ... start a thread that calls clock.AwaitWithDeadline(...) ...
//   clock.BlockUntilWaiters(1);
//   clock.Advance(absl::Milliseconds(5));
//
// Thread-safe. Advance and BlockUntilWaiters must not be called with a mutex
// held that somebody waits with.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace stoker {

class FakeClock : public Clock {
 public:
  explicit FakeClock(absl::Time wall = absl::FromUnixSeconds(1'700'000'000))
      : wall_(wall) {}

  MonotonicTime Now() override {
    const std::lock_guard lock(mu_);
    return now_;
  }
  absl::Time WallNow() override {
    const std::lock_guard lock(mu_);
    return wall_;
  }

  bool AwaitWithDeadline(absl::Mutex* mu, const absl::Condition& condition,
                         MonotonicTime deadline) override
      ABSL_SHARED_LOCKS_REQUIRED(mu) {
    if (condition.Eval()) return true;
    Waiter waiter(mu, condition, deadline);
    {
      const std::lock_guard lock(mu_);
      if (now_ >= deadline) return false;
      waiters_.push_back(&waiter);
      waiters_changed_.notify_all();
    }
    // Nobody can see the waiter as waiting before this releases `mu`, because a
    // look at what `mu` guards takes `mu`.
    mu->Await(absl::Condition(&waiter, &Waiter::IsAwake));
    if (!Unregister(&waiter)) {
      // Advance has seen the deadline pass and is about to take `mu` to say so:
      // it must be through with `mu` and `waiter` before they may go away.
      mu->Await(absl::Condition(&waiter, &Waiter::IsExpired));
    }
    return condition.Eval();
  }

  // Moves the time and wakes everybody whose deadline has come. Negative
  // durations are not allowed.
  void Advance(absl::Duration duration) {
    std::vector<Waiter*> expired;
    {
      const std::lock_guard lock(mu_);
      now_ += duration;
      wall_ += duration;
      const auto first_expired = std::partition(
          waiters_.begin(), waiters_.end(),
          [this](const Waiter* waiter) { return waiter->deadline > now_; });
      expired.assign(first_expired, waiters_.end());
      waiters_.erase(first_expired, waiters_.end());
    }
    for (Waiter* waiter : expired) {
      absl::MutexLock lock(waiter->mu);
      waiter->expired = true;  // the waiter's thread may free it from here on
    }
  }

  // What an administrator does, or NTP: back or forth. Wakes nobody.
  void StepWall(absl::Duration step) {
    const std::lock_guard lock(mu_);
    wall_ += step;
  }

  // Blocks until at least `count` threads wait in AwaitWithDeadline. Threads
  // whose deadline has passed no longer count, even before they have woken up.
  void BlockUntilWaiters(int count) {
    std::unique_lock lock(mu_);
    waiters_changed_.wait(lock, [this, count] {
      return static_cast<int>(waiters_.size()) >= count;
    });
  }

 private:
  // Lives on the stack of the waiting thread.
  struct Waiter {
    Waiter(absl::Mutex* m, const absl::Condition& c, MonotonicTime d)
        : mu(m), condition(c), deadline(d) {}

    bool IsAwake() const { return expired || condition.Eval(); }
    bool IsExpired() const { return expired; }

    absl::Mutex* const mu;
    const absl::Condition condition;
    const MonotonicTime deadline;
    bool expired = false;  // guarded by *mu
  };

  // False when Advance has taken the waiter out already. Called with the
  // waiter's mu held; Advance takes that one and mu_ never at once, so the
  // order is safe.
  bool Unregister(Waiter* waiter) {
    const std::lock_guard lock(mu_);
    const auto it = std::find(waiters_.begin(), waiters_.end(), waiter);
    if (it == waiters_.end()) return false;
    waiters_.erase(it);
    return true;
  }

  // Not an absl::Mutex: it is taken with the waiters' mutexes held, which would
  // put all of them into abseil's lock-order graph, and ThreadSanitizer can't
  // see what guards that graph in an abseil that was built without it.
  std::mutex mu_;
  std::condition_variable waiters_changed_;
  // Guarded by mu_. Some hours after the machine's start.
  MonotonicTime now_ = MonotonicTime() + absl::Hours(5);
  absl::Time wall_;
  std::vector<Waiter*> waiters_;
};

}  // namespace stoker
