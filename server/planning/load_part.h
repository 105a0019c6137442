// A part of a bucket problem (planning/bucket_proposal.h): the loads that
// differ only in dimensions that can be padded. What the solvers of such a part
// share.
//
// Plain values and pure functions; for the solvers alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "tensor/shape_bucket.h"

namespace stoker {

// The cost of what is impossible.
inline constexpr double kNever = std::numeric_limits<double>::infinity();
// Buckets that the search by exchange chooses from.
inline constexpr size_t kMaxCandidates = 1024;
// Sizes that are told apart, of the dimension with fewer and the other one.
inline constexpr size_t kOuterSizes = 16;
inline constexpr size_t kInnerSizes = 1024;

// A load, and what it costs outside all buckets.
struct LoadPoint {
  DimensionSizes sizes;
  double runs = 0;
  double outside = 0;
};

// The loads that differ in paddable dimensions only.
using LoadPart = std::vector<LoadPoint>;

// Whether a bucket is as large as the sizes in every dimension.
bool HoldsPoint(const DimensionSizes& bucket, const DimensionSizes& sizes);

// Values with their weights, ascending; of more than `most` those are kept that
// divide the weight evenly. The last always stays: the others round up.
std::vector<int64_t> Thin(const std::map<int64_t, double>& weights,
                          size_t most);

}  // namespace stoker
