// Lanes: what a task's sizes are padded to, the batch dimension aside. Tasks of
// one lane can share any bucket of it; tasks of two lanes share the buckets of
// the lane that holds both.
//
// Immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "tensor/shape_bucket.h"

namespace stoker {

class Lanes {
 public:
  // A lane for each combination of the buckets' sizes, and for what holds two
  // lanes at once. `paddable`, by dimension: a task may be smaller than its
  // lane there.
  Lanes(std::vector<ShapeBucket> buckets, std::vector<bool> paddable,
        std::optional<int> batch_dimension);

  // The smallest lane that holds the sizes with a bucket of enough rows; -1:
  // none does.
  int Find(absl::Span<const int64_t> sizes) const;
  // The lane that holds both; -1: there is none.
  int Join(int a, int b) const {
    return joins_[static_cast<size_t>(a) * sizes_.size() +
                  static_cast<size_t>(b)];
  }

  int count() const { return static_cast<int>(sizes_.size()); }
  const std::vector<ShapeBucket>& buckets() const { return buckets_; }
  // The buckets' indices, the smallest first.
  const std::vector<int>& by_volume() const { return by_volume_; }
  // The numbers of rows that buckets have, ascending; {1} without a batch
  // dimension.
  const std::vector<int64_t>& row_sizes() const { return row_sizes_; }
  // Index in row_sizes() of the least that is enough; row_sizes().size(): none.
  size_t RowIndex(int64_t rows) const;
  // Whether tasks of the lane, that many rows in all, fit into the bucket.
  bool Holds(int bucket, int lane, int64_t rows) const;

 private:
  int64_t Rows(const DimensionSizes& sizes) const;
  bool LaneHolds(const DimensionSizes& lane,
                 absl::Span<const int64_t> sizes) const;
  void AddLane(const DimensionSizes& sizes);
  void AddJoins();

  const std::vector<ShapeBucket> buckets_;
  const std::vector<bool> paddable_;
  const std::optional<int> batch_dimension_;
  std::vector<DimensionSizes> sizes_;  // the batch dimension's entry is 1
  std::vector<int> joins_;
  std::vector<int64_t> row_sizes_;
  std::vector<int> by_volume_;
};

}  // namespace stoker
