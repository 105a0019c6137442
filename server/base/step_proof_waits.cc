#include "base/step_proof_waits.h"

#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/time/time.h"

namespace stoker {

MonotonicTime StepProofWaits::Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return MonotonicTime() + absl::DurationFromTimespec(now);
}

bool StepProofWaits::Await(absl::Mutex* mu, const absl::Condition& condition,
                           MonotonicTime deadline) {
  if (deadline == MonotonicTime::InfiniteFuture()) {
    mu->Await(condition);
    return true;
  }
  while (!condition.Eval()) {
    const absl::Duration left = deadline - Now();
    if (left <= absl::ZeroDuration()) return false;
    Waiter waiter(mu, condition);
    // Before the mutex asks for the time of day: no step after that is missed.
    List(waiter);
    mu->AwaitWithTimeout(absl::Condition(&waiter, &Waiter::IsAwake), left);
    if (!Unlist(waiter)) {
      // BeginAgain is about to take `mu` for it: it must be through with both
      // before they may go away.
      mu->Await(absl::Condition(&waiter.stepped));
    }
  }
  return true;
}

void StepProofWaits::BeginAgain() {
  Waiter* waiter = nullptr;
  {
    // All at once: whoever is woken up comes back into the list.
    const std::lock_guard lock(mu_);
    waiter = std::exchange(first_, nullptr);
    for (Waiter* each = waiter; each != nullptr; each = each->next) {
      each->listed = false;
    }
  }
  while (waiter != nullptr) {
    Waiter* const next = waiter->next;
    absl::MutexLock lock(waiter->mu);
    waiter->stepped = true;  // its thread may free it from here on
    waiter = next;
  }
}

void StepProofWaits::List(Waiter& waiter) {
  std::call_once(watching_, [this] {
    watch_ = Thread("clock-steps", [this] { Watch(); });
  });
  const std::lock_guard lock(mu_);
  waiter.listed = true;
  waiter.next = first_;
  if (first_ != nullptr) first_->previous = &waiter;
  first_ = &waiter;
}

bool StepProofWaits::Unlist(Waiter& waiter) {
  const std::lock_guard lock(mu_);
  if (!waiter.listed) return false;
  (waiter.previous != nullptr ? waiter.previous->next : first_) = waiter.next;
  if (waiter.next != nullptr) waiter.next->previous = waiter.previous;
  return true;
}

// A timer that is never due, and is cancelled by each step. A kernel without
// such timers, gVisor for one, leaves it at that: a step back prolongs what
// waits at that moment.
void StepProofWaits::Watch() {
  const int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC);
  itimerspec never{};
  never.it_value.tv_sec = std::numeric_limits<time_t>::max();
  if (fd < 0 || timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET,
                                &never, nullptr) != 0) {
    return;
  }
  for (;;) {
    uint64_t expirations = 0;
    if (read(fd, &expirations, sizeof(expirations)) >= 0 || errno == EINTR) {
      continue;
    }
    if (errno != ECANCELED) return;
    BeginAgain();
  }
}

}  // namespace stoker
