#include "planning/bucket_exchange.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>

namespace stoker {
namespace {

// A bucket that saves less than this share of all time is not worth having.
constexpr double kLeastGain = 1e-9;
constexpr int kMaxExchanges = 256;

}  // namespace

double BucketExchange::Cost() {
  Assign();
  return total_;
}

std::vector<double> BucketExchange::AddGreedily(size_t max_buckets) {
  Assign();
  std::vector<double> curve = {total_};
  std::priority_queue<std::pair<double, size_t>> gains;
  for (size_t c = 0; c < candidates_.size(); ++c) {
    gains.emplace(GainOf(candidates_[c]), c);
  }
  while (chosen_.size() < max_buckets && !gains.empty()) {
    const size_t c = gains.top().second;
    gains.pop();
    const double gain = GainOf(candidates_[c]);
    if (!gains.empty() && gain < gains.top().first) {
      gains.emplace(gain, c);
      continue;
    }
    if (!(gain > total_ * kLeastGain)) break;
    chosen_.push_back(candidates_[c]);
    Assign();
    curve.push_back(total_);
  }
  return curve;
}

void BucketExchange::Improve() {
  for (int n = 0; n < kMaxExchanges && !chosen_.empty(); ++n) {
    Assign();
    double best = total_ * kLeastGain;
    size_t in = 0, out = chosen_.size();
    for (size_t c = 0; c < candidates_.size(); ++c) {
      const auto [gain, loser] = BestExchange(candidates_[c]);
      if (gain <= best) continue;
      best = gain;
      in = c;
      out = loser;
    }
    if (out == chosen_.size()) return;
    chosen_[out] = candidates_[in];
  }
}

void BucketExchange::DropUnused() {
  Assign();
  std::vector<bool> used(chosen_.size(), false);
  for (const Held& held : held_) {
    if (held.bucket >= 0) used[static_cast<size_t>(held.bucket)] = true;
  }
  std::vector<ShapeBucket> kept;
  for (size_t b = 0; b < chosen_.size(); ++b) {
    if (used[b]) kept.push_back(std::move(chosen_[b]));
  }
  chosen_ = std::move(kept);
}

void BucketExchange::Assign() {
  held_.clear();
  total_ = 0;
  for (const LoadPoint& point : part_) {
    double first = kNever, second = kNever;
    Held held;
    for (size_t b = 0; b < chosen_.size(); ++b) {
      if (!HoldsPoint(chosen_[b].sizes, point.sizes)) continue;
      const double cost = point.runs * compiled_(chosen_[b].sizes);
      if (cost < first) {
        second = first;
        first = cost;
        held.bucket = static_cast<int>(b);
      } else {
        second = std::min(second, cost);
      }
    }
    held.cost = held.bucket < 0 ? point.outside : first;
    held.second = second;
    total_ += held.cost;
    held_.push_back(held);
  }
}

double BucketExchange::GainOf(const ShapeBucket& bucket) const {
  const double cost = compiled_(bucket.sizes);
  double gain = 0;
  for (size_t p = 0; p < part_.size(); ++p) {
    if (!HoldsPoint(bucket.sizes, part_[p].sizes)) continue;
    const double saved = held_[p].cost - part_[p].runs * cost;
    if (saved > 0 || held_[p].bucket < 0) gain += saved;
  }
  return gain;
}

std::pair<double, size_t> BucketExchange::BestExchange(
    const ShapeBucket& bucket) {
  const double cost = compiled_(bucket.sizes);
  double gain = 0;
  losses_.assign(chosen_.size(), 0);
  for (size_t p = 0; p < part_.size(); ++p) {
    const Held& held = held_[p];
    double now = held.cost;
    double without = held.second;
    if (HoldsPoint(bucket.sizes, part_[p].sizes)) {
      const double offer = part_[p].runs * cost;
      // Outside is no choice where a bucket holds the load.
      now = held.bucket < 0 ? offer : std::min(now, offer);
      without = std::min(without, offer);
    } else if (without == kNever) {
      without = part_[p].outside;
    }
    gain += held.cost - now;
    if (held.bucket >= 0) {
      losses_[static_cast<size_t>(held.bucket)] += without - now;
    }
  }
  const auto least = std::min_element(losses_.begin(), losses_.end());
  return {gain - *least, static_cast<size_t>(least - losses_.begin())};
}

std::vector<ShapeBucket> ProductOfSizes(const LoadPart& part,
                                        const std::vector<size_t>& varying) {
  size_t each = kInnerSizes;
  while (each > 1 && std::pow(each, varying.size()) > kMaxCandidates) --each;
  std::vector<ShapeBucket> buckets = {{part.front().sizes}};
  for (const size_t dimension : varying) {
    std::map<int64_t, double> weights;
    for (const LoadPoint& point : part) {
      weights[point.sizes[dimension]] += point.runs;
    }
    std::vector<ShapeBucket> longer;
    for (const int64_t size : Thin(weights, each)) {
      for (ShapeBucket& bucket : buckets) {
        bucket.sizes[dimension] = size;
        longer.push_back(bucket);
      }
    }
    buckets = std::move(longer);
  }
  return buckets;
}

}  // namespace stoker
