// A histogram of durations with a bounded relative error: Gil Tene's HDR
// histogram (http://hdrhistogram.org), fixed to nanoseconds and three
// significant digits. Values below 2048 ns are exact; above, each power of two
// is cut into 1024 equal buckets, so that a value is known to 0.1 %.
//
// Not thread-safe: one per thread, added up afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace stoker::loadtest {

class Histogram {
 public:
  // Longer durations are counted as this one: an hour.
  static constexpr int64_t kMaxNs = int64_t{3600} * 1'000'000'000;

  Histogram();

  // A negative duration counts as 0.
  void Record(int64_t ns);
  void Add(const Histogram& other);

  int64_t count() const { return count_; }
  // Exact; 0 without values.
  int64_t min() const { return count_ == 0 ? 0 : min_; }
  int64_t max() const { return max_; }
  double mean() const;

  // The least value that at least `percentile` per cent of all values do not
  // exceed, rounded up to the end of its bucket but never above max(); 0
  // without values.
  int64_t Percentile(double percentile) const;
  // Every bucket that holds values, in order: [low, high] in ns.
  void ForEach(const std::function<void(int64_t low, int64_t high,
                                        int64_t count)>& visit) const;

 private:
  static size_t Index(int64_t ns);
  static int64_t Low(size_t index);
  static int64_t High(size_t index) { return Low(index + 1) - 1; }

  std::vector<int64_t> counts_;
  int64_t count_ = 0;
  int64_t min_ = kMaxNs;
  int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace stoker::loadtest
