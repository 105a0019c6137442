#include "batching/bucket_costs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace stoker {
namespace {

constexpr double kShortest = 1e-9;  // a run too short for the clock
constexpr double kQuick = 0.25;
constexpr double kPublishedChange = 0.03;
constexpr double kHeldUp = 10;  // a run by another process, against its limit

double Seconds(absl::Duration run) {
  return std::max(absl::ToDoubleSeconds(run), kShortest);
}

}  // namespace

BucketCosts::BucketCosts(absl::Span<const ShapeBucket> buckets) {
  for (const ShapeBucket& bucket : buckets) {
    Cost cost{.volume = 1};
    for (const int64_t size : bucket.sizes) {
      cost.volume *= static_cast<double>(std::max<int64_t>(size, 1));
    }
    costs_.push_back(cost);
  }
}

void BucketCosts::Add(Cost& cost, double seconds, MonotonicTime now) {
  cost.runs[cost.next] = seconds;
  cost.next = (cost.next + 1) % kRuns;
  cost.count = std::min(cost.count + 1, kRuns);
  cost.spell_began = now;
  cost.latest = seconds;
}

double BucketCosts::Quantile(const Cost& cost, double part) {
  std::array<double, kRuns> sorted = cost.runs;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(cost.count);
  const auto found =
      sorted.begin() +
      static_cast<std::ptrdiff_t>(part * static_cast<double>(cost.count - 1));
  std::nth_element(sorted.begin(), found, end);
  return *found;
}

void BucketCosts::Record(int bucket, absl::Duration run, MonotonicTime now) {
  absl::MutexLock lock(&mu_);
  Cost& cost = costs_[static_cast<size_t>(bucket)];
  const double seconds = Seconds(run);
  if (cost.forgotten) {
    cost.count = cost.next = 0;
    Add(cost, cost.seconds, MonotonicTime::InfinitePast());
    cost.forgotten = false;
  }
  if (cost.count > 0 && now - cost.spell_began < kSpell) {
    double& quickest = cost.runs[(cost.next + kRuns - 1) % kRuns];
    quickest = std::min(quickest, seconds);
    cost.latest = seconds;
  } else {
    Add(cost, seconds, now);
  }
  cost.last = now;
  forget_at_ = std::min(forget_at_, now + kForget);
  cost.seconds = Quantile(cost, 0.5);
  if (cost.count == 1)
    cost.seconds = std::min(cost.seconds, LeastOfLarger(cost));
  Publish(cost);
}

void BucketCosts::Reset(int bucket, absl::Duration run, MonotonicTime now) {
  absl::MutexLock lock(&mu_);
  Cost& cost = costs_[static_cast<size_t>(bucket)];
  cost.count = cost.next = 0;
  cost.forgotten = false;
  Add(cost, Seconds(run), MonotonicTime::InfinitePast());
  cost.last = now;
  forget_at_ = std::min(forget_at_, now + kForget);
  cost.seconds = cost.runs[0];
  Publish(cost);
}

uint64_t BucketCosts::Generation(MonotonicTime now) {
  absl::MutexLock lock(&mu_);
  if (now < forget_at_) return generation_;
  forget_at_ = MonotonicTime::InfiniteFuture();
  for (Cost& cost : costs_) {
    if (cost.count == 0 || cost.forgotten) continue;
    if (now - cost.last < kForget) {
      forget_at_ = std::min(forget_at_, cost.last + kForget);
      continue;
    }
    cost.forgotten = true;
    cost.seconds = std::min(Quantile(cost, kQuick), LeastOfLarger(cost));
    Publish(cost);
  }
  return generation_;
}

double BucketCosts::LeastOfLarger(const Cost& cost) const {
  double least = std::numeric_limits<double>::infinity();
  for (const Cost& other : costs_) {
    if (other.volume > cost.volume && other.seconds > 0) {
      least = std::min(least, other.seconds);
    }
  }
  return least;
}

void BucketCosts::Publish(Cost& cost) {
  if (std::abs(cost.seconds - cost.published) <=
      cost.published * kPublishedChange) {
    return;
  }
  cost.published = cost.seconds;
  ++generation_;
}

double BucketCosts::EstimateLocked(const Cost& cost) const {
  if (cost.seconds > 0) return cost.seconds;
  double smaller = 0;
  double per_volume = 0;  // the least, of all that ran
  for (const Cost& other : costs_) {
    if (other.seconds == 0) continue;
    if (other.volume <= cost.volume) smaller = std::max(smaller, other.seconds);
    const double ratio = other.seconds / other.volume;
    per_volume = per_volume == 0 ? ratio : std::min(per_volume, ratio);
  }
  if (smaller > 0) return smaller;
  return per_volume > 0 ? per_volume * cost.volume : kShortest;
}

std::vector<double> BucketCosts::Estimates() const {
  absl::MutexLock lock(&mu_);
  std::vector<double> estimates;
  estimates.reserve(costs_.size());
  for (const Cost& cost : costs_) estimates.push_back(EstimateLocked(cost));
  return estimates;
}

bool BucketCosts::Within(int bucket, absl::Duration limit) const {
  absl::MutexLock lock(&mu_);
  const Cost& cost = costs_[static_cast<size_t>(bucket)];
  if (cost.seconds == 0) return false;
  const double most = absl::ToDoubleSeconds(limit);
  return cost.seconds < most && cost.latest < kHeldUp * most;
}

}  // namespace stoker
