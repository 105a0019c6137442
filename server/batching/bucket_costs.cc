#include "batching/bucket_costs.h"

#include <algorithm>
#include <cmath>

namespace stoker {
namespace {

constexpr double kShortest = 1e-9;  // a run too short for the clock
constexpr double kWeight = 1.0 / 8;
constexpr double kMostChange = 2;
constexpr double kPublishedChange = 0.03;

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

void BucketCosts::Record(int bucket, absl::Duration run) {
  absl::MutexLock lock(&mu_);
  Cost& cost = costs_[static_cast<size_t>(bucket)];
  const double seconds = Seconds(run);
  if (cost.seconds == 0) {
    cost.seconds = seconds;
  } else {
    const double bounded = std::clamp(seconds, cost.seconds / kMostChange,
                                      cost.seconds * kMostChange);
    cost.seconds += (bounded - cost.seconds) * kWeight;
  }
  Publish(cost);
}

void BucketCosts::Reset(int bucket, absl::Duration run) {
  absl::MutexLock lock(&mu_);
  Cost& cost = costs_[static_cast<size_t>(bucket)];
  cost.seconds = Seconds(run);
  Publish(cost);
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
  const double seconds = costs_[static_cast<size_t>(bucket)].seconds;
  return seconds > 0 && seconds < absl::ToDoubleSeconds(limit);
}

uint64_t BucketCosts::generation() const {
  absl::MutexLock lock(&mu_);
  return generation_;
}

}  // namespace stoker
