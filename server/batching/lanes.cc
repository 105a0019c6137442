#include "batching/lanes.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace stoker {
namespace {

// Joins of joins are left out beyond this; their tasks don't share batches.
constexpr size_t kMostLanes = 256;

}  // namespace

Lanes::Lanes(std::vector<ShapeBucket> buckets, std::vector<bool> paddable,
             std::optional<int> batch_dimension)
    : buckets_(std::move(buckets)),
      paddable_(std::move(paddable)),
      batch_dimension_(batch_dimension) {
  for (const ShapeBucket& bucket : buckets_) {
    row_sizes_.push_back(Rows(bucket.sizes));
    AddLane(bucket.sizes);
  }
  std::sort(row_sizes_.begin(), row_sizes_.end());
  row_sizes_.erase(std::unique(row_sizes_.begin(), row_sizes_.end()),
                   row_sizes_.end());
  AddJoins();
  by_volume_.resize(buckets_.size());
  std::iota(by_volume_.begin(), by_volume_.end(), 0);
  std::stable_sort(by_volume_.begin(), by_volume_.end(), [this](int a, int b) {
    return Volume(buckets_[static_cast<size_t>(a)].sizes) <
           Volume(buckets_[static_cast<size_t>(b)].sizes);
  });
}

int64_t Lanes::Rows(const DimensionSizes& sizes) const {
  return batch_dimension_ ? sizes[static_cast<size_t>(*batch_dimension_)] : 1;
}

void Lanes::AddLane(const DimensionSizes& sizes) {
  DimensionSizes lane = sizes;
  if (batch_dimension_) lane[static_cast<size_t>(*batch_dimension_)] = 1;
  if (std::find(sizes_.begin(), sizes_.end(), lane) == sizes_.end()) {
    sizes_.push_back(std::move(lane));
  }
}

void Lanes::AddJoins() {
  for (size_t b = 1; b < sizes_.size() && sizes_.size() < kMostLanes; ++b) {
    for (size_t a = 0; a < b && sizes_.size() < kMostLanes; ++a) {
      DimensionSizes both = sizes_[a];
      for (size_t i = 0; i < both.size(); ++i) {
        both[i] = std::max(both[i], sizes_[b][i]);
      }
      if (LaneHolds(both, sizes_[a]) && LaneHolds(both, sizes_[b])) {
        AddLane(both);
      }
    }
  }
  for (const DimensionSizes& a : sizes_) {
    for (const DimensionSizes& b : sizes_) {
      DimensionSizes both = a;
      for (size_t i = 0; i < both.size(); ++i) {
        both[i] = std::max(both[i], b[i]);
      }
      const bool holds = LaneHolds(both, a) && LaneHolds(both, b);
      const auto found = std::find(sizes_.begin(), sizes_.end(), both);
      joins_.push_back(holds && found != sizes_.end()
                           ? static_cast<int>(found - sizes_.begin())
                           : -1);
    }
  }
}

bool Lanes::LaneHolds(const DimensionSizes& lane,
                      absl::Span<const int64_t> sizes) const {
  for (size_t i = 0; i < lane.size(); ++i) {
    if (static_cast<int>(i) == batch_dimension_) continue;
    if (paddable_[i] ? sizes[i] > lane[i] : sizes[i] != lane[i]) return false;
  }
  return true;
}

int Lanes::Find(absl::Span<const int64_t> sizes) const {
  const int64_t rows =
      batch_dimension_ ? sizes[static_cast<size_t>(*batch_dimension_)] : 1;
  int best = -1;
  double best_volume = 0;
  for (size_t lane = 0; lane < sizes_.size(); ++lane) {
    const double volume = Volume(sizes_[lane]);
    if (best >= 0 && volume >= best_volume) continue;
    if (!LaneHolds(sizes_[lane], sizes)) continue;
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      if (!Holds(static_cast<int>(bucket), static_cast<int>(lane), rows)) {
        continue;
      }
      best = static_cast<int>(lane);
      best_volume = volume;
      break;
    }
  }
  return best;
}

size_t Lanes::RowIndex(int64_t rows) const {
  return static_cast<size_t>(
      std::lower_bound(row_sizes_.begin(), row_sizes_.end(), rows) -
      row_sizes_.begin());
}

bool Lanes::Holds(int bucket, int lane, int64_t rows) const {
  const DimensionSizes& sizes = buckets_[static_cast<size_t>(bucket)].sizes;
  return rows <= Rows(sizes) &&
         LaneHolds(sizes, sizes_[static_cast<size_t>(lane)]);
}

}  // namespace stoker
