#include "loadtest/generator/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace stoker::loadtest {
namespace {

// Below 2 * kHalf one bucket per nanosecond; from there kHalf buckets for each
// power of two.
constexpr int kHalfBits = 10;
constexpr int64_t kHalf = int64_t{1} << kHalfBits;

}  // namespace

Histogram::Histogram() : counts_(Index(kMaxNs) + 1, 0) {}

size_t Histogram::Index(int64_t ns) {
  if (ns < 2 * kHalf) return static_cast<size_t>(ns);
  const int shift =
      static_cast<int>(std::bit_width(static_cast<uint64_t>(ns))) -
      (kHalfBits + 1);
  // ns >> shift is in [kHalf, 2 * kHalf).
  return static_cast<size_t>(shift) * kHalf + static_cast<size_t>(ns >> shift);
}

int64_t Histogram::Low(size_t index) {
  const auto position = static_cast<int64_t>(index);
  if (position < 2 * kHalf) return position;
  const int64_t shift = position / kHalf - 1;
  return (position - shift * kHalf) << shift;
}

void Histogram::Record(int64_t ns) {
  ns = std::clamp<int64_t>(ns, 0, kMaxNs);
  ++counts_[Index(ns)];
  ++count_;
  min_ = std::min(min_, ns);
  max_ = std::max(max_, ns);
  sum_ += static_cast<double>(ns);
}

void Histogram::Add(const Histogram& other) {
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

double Histogram::mean() const {
  return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
}

int64_t Histogram::Percentile(double percentile) const {
  if (count_ == 0) return 0;
  const double share = std::clamp(percentile, 0.0, 100.0) / 100;
  // 99.9 % of 1000 is 999 although 0.999 * 1000 is a little more.
  const auto wanted = std::max<int64_t>(
      1, static_cast<int64_t>(
             std::ceil(share * static_cast<double>(count_) - 1e-6)));
  int64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= wanted) return std::min(High(i), max_);
  }
  return max_;
}

void Histogram::ForEach(
    const std::function<void(int64_t, int64_t, int64_t)>& visit) const {
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] > 0) visit(Low(i), High(i), counts_[i]);
  }
}

}  // namespace stoker::loadtest
