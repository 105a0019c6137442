// Waits on absl::Mutex that take as long as they should while the time of day
// is stepped. The mutex turns every limit into a time of day: of its own it
// would wake up early when that is stepped forward, and an hour late when it is
// stepped back by an hour. Here whoever wakes up early waits on, and a thread
// that the kernel tells of each step wakes up whoever waits, to begin again
// with what is left.
//
// Private to Clock::Real(). Thread-safe. Made once and never destroyed: its
// thread has no end.
#pragma once

#include <mutex>

#include "absl/synchronization/mutex.h"
#include "base/monotonic_time.h"
#include "base/thread.h"

namespace stoker {

class StepProofWaits {
 public:
  // As Clock::AwaitWithDeadline. The first one starts the thread.
  bool Await(absl::Mutex* mu, const absl::Condition& condition,
             MonotonicTime deadline) ABSL_SHARED_LOCKS_REQUIRED(mu);

  // Has everybody who waits look at how much is left: after a step.
  void BeginAgain();

  static MonotonicTime Now();

 private:
  // Lives on the stack of the waiting thread.
  struct Waiter {
    Waiter(absl::Mutex* m, const absl::Condition& c) : mu(m), condition(c) {}
    bool IsAwake() const { return stepped || condition.Eval(); }

    absl::Mutex* const mu;
    const absl::Condition& condition;
    bool stepped = false;  // guarded by *mu
    // Guarded by mu_.
    bool listed = false;
    Waiter* previous = nullptr;
    Waiter* next = nullptr;
  };

  void List(Waiter& waiter);
  // False when BeginAgain has taken the waiter out already.
  bool Unlist(Waiter& waiter);
  // Waits for steps, for ever.
  void Watch();

  std::once_flag watching_;
  Thread watch_;

  // Not an absl::Mutex: it is taken with the waiters' mutexes held, which would
  // put all of them into abseil's lock-order graph.
  std::mutex mu_;
  Waiter* first_ = nullptr;  // guarded by mu_
};

}  // namespace stoker
