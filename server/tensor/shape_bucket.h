// Shape buckets: the concrete sizes of a model's dimensions that an executable
// is compiled for, and the table that finds the one a request runs in.
// Immutable values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace stoker {

// One size per dimension of the model, in ModelSpec::dimensions order.
using DimensionSizes = absl::InlinedVector<int64_t, 4>;

// In a bucket's sizes: whatever a run has there. Only of dynamic forms
// (planning/warmup_plan.h), which no BucketTable holds.
inline constexpr int64_t kAnySize = -1;

struct ShapeBucket {
  DimensionSizes sizes;
  friend bool operator==(const ShapeBucket&, const ShapeBucket&) = default;
};

// Whether any of its sizes is open.
bool IsDynamic(const ShapeBucket& bucket);

// Product of the sizes; 1 without any.
double Volume(absl::Span<const int64_t> sizes);

// "batch=8,tokens=32", "batch=any,tokens=any"; "static" for a model without
// dimensions.
std::string BucketName(const ShapeBucket& bucket,
                       absl::Span<const std::string> dimension_names);

class BucketTable {
 public:
  // paddable[i]: a request may be smaller than the bucket in dimension i;
  // otherwise it must be equal there.
  BucketTable(std::vector<ShapeBucket> buckets, std::vector<bool> paddable);

  const std::vector<ShapeBucket>& buckets() const { return buckets_; }
  bool paddable(int dimension) const { return paddable_[dimension]; }

  // Index of the bucket of least volume (product of sizes; ties: lower index)
  // that holds `sizes`; nullopt when none does.
  std::optional<int> Match(absl::Span<const int64_t> sizes) const;

 private:
  std::vector<ShapeBucket> buckets_;
  std::vector<bool> paddable_;
};

}  // namespace stoker
