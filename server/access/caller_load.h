// What one caller asks for, or one subject of his JWTs: over time and at a
// time, by all tokens and connections together.
//
// Thread-safe.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/token_bucket.h"

namespace stoker {

struct CallerLimits {
  double requests_per_second = 0;  // 0: any number
  double burst = 0;                // of them at once; with the above
  int concurrent = 0;              // 0: any number

  bool operator==(const CallerLimits&) const = default;
};

class CallerPass;

class CallerLoad : public std::enable_shared_from_this<CallerLoad> {
 public:
  enum class Refusal { kNone, kRate, kConcurrent };

  // Other limits from now on; what is under way stays counted.
  void Limit(const CallerLimits& limits) ABSL_LOCKS_EXCLUDED(mu_);

  // Counts a request until the pass is gone. When it is refused, `pass` stays
  // empty and `retry_after` says when another might find room.
  Refusal Enter(MonotonicTime now, CallerPass& pass,
                absl::Duration& retry_after) ABSL_LOCKS_EXCLUDED(mu_);

  CallerLimits limits() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return limits_;
  }
  int under_way() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return under_way_;
  }

 private:
  friend class CallerPass;
  void Leave() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    --under_way_;
  }
  void TakeBack() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    --under_way_;
    if (bucket_.has_value()) bucket_->Earn(1);
  }

  mutable absl::Mutex mu_;
  CallerLimits limits_ ABSL_GUARDED_BY(mu_);
  std::optional<TokenBucket> bucket_ ABSL_GUARDED_BY(mu_);  // with a rate
  int under_way_ ABSL_GUARDED_BY(mu_) = 0;
};

// A request that was let in, by the caller's load, the subject's or both. One
// thread at a time.
class CallerPass {
 public:
  CallerPass() = default;
  explicit CallerPass(std::shared_ptr<CallerLoad> load)
      : loads_{std::move(load), nullptr} {}
  CallerPass(CallerPass&& other) noexcept = default;
  CallerPass& operator=(CallerPass&& other) noexcept {
    std::swap(loads_, other.loads_);
    return *this;
  }
  ~CallerPass() {
    for (const auto& load : loads_) {
      if (load != nullptr) load->Leave();
    }
  }

  // Another load has let it in, too, by a pass of that load alone.
  void Join(CallerPass other) { std::swap(loads_[1], other.loads_[0]); }
  // Another has not: as if it had never come.
  void TakeBack() {
    for (std::shared_ptr<CallerLoad>& load : loads_) {
      if (load != nullptr) std::exchange(load, nullptr)->TakeBack();
    }
  }

 private:
  std::array<std::shared_ptr<CallerLoad>, 2> loads_;  // null: is not counted
};

}  // namespace stoker
