#include "access/caller_load.h"

namespace stoker {
namespace {

// What is under way ends at some time; nobody knows when.
constexpr absl::Duration kSoon = absl::Milliseconds(100);

}  // namespace

void CallerLoad::Limit(const CallerLimits& limits) {
  absl::MutexLock lock(&mu_);
  const bool same_rate =
      limits.requests_per_second == limits_.requests_per_second &&
      limits.burst == limits_.burst;
  limits_ = limits;
  if (same_rate) return;
  bucket_.reset();
  if (limits.requests_per_second > 0) {
    bucket_.emplace(limits.burst, limits.requests_per_second);
  }
}

CallerLoad::Refusal CallerLoad::Enter(MonotonicTime now, CallerPass& pass,
                                      absl::Duration& retry_after) {
  CallerPass another;  // what `pass` was dies outside the lock
  {
    absl::MutexLock lock(&mu_);
    if (limits_.concurrent > 0 && under_way_ >= limits_.concurrent) {
      retry_after = kSoon;
      return Refusal::kConcurrent;
    }
    if (bucket_.has_value() && !bucket_->Take(now)) {
      retry_after = bucket_->Wait();
      return Refusal::kRate;
    }
    ++under_way_;
    another = CallerPass(shared_from_this());
  }
  pass = std::move(another);
  return Refusal::kNone;
}

}  // namespace stoker
