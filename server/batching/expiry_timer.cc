#include "batching/expiry_timer.h"

#include <algorithm>

namespace stoker {

void ExpiryTimer::Start(const std::string& thread_name) {
  thread_ = Thread(thread_name, [this] { Loop(); });
}

void ExpiryTimer::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stop_ = true;
  }
  thread_.Join();
}

void ExpiryTimer::WakeEarlier(MonotonicTime due) {
  absl::MutexLock lock(&mu_);
  if (due >= wake_) return;
  wake_ = due;
  changed_ = true;
}

void ExpiryTimer::Loop() {
  for (;;) {
    {
      const auto woken = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
        return changed_ || stop_;
      };
      absl::MutexLock lock(&mu_);
      clock_.AwaitWithDeadline(&mu_, absl::Condition(&woken), wake_);
      if (stop_) return;
      changed_ = false;
      if (clock_.Now() < wake_) continue;
      wake_ =
          MonotonicTime::InfiniteFuture();  // what comes meanwhile lowers it
    }
    const MonotonicTime next = expire_(clock_.Now());
    absl::MutexLock lock(&mu_);
    wake_ = std::min(wake_, next);
  }
}

}  // namespace stoker
