// Which buckets serve a load in the least time: few large ones pad, many small
// ones have to be compiled and kept. Pure functions of numbers.
//
// Along one dimension the best buckets are found exactly, by dynamic
// programming over the sorted sizes (Bruce, Optimum Quantization, 1965; Fisher,
// On Grouping for Maximum Homogeneity, 1958). The best last bucket but one only
// grows with the last, so each round takes n log n steps (Galil and Park,
// Dynamic Programming with Convexity, 1992).
//
// Along two dimensions, a batch and a length, say, sizes of the one with fewer
// are grouped, each group has its own buckets along the other, and both choices
// are made by dynamic programming: the best of all solutions in which runs of a
// group use buckets of their own group. Along three and more, buckets are added
// greedily, which saves at least 63 % of what the best set of as many would
// (Nemhauser, Wolsey and Fisher, 1978). Both are improved by exchanging one
// bucket at a time while that helps (Schubert and Rousseeuw, Faster k-Medoids,
// 2021).
//
// Sizes of dimensions that can't be padded split the load into parts, which
// share the number of buckets by dynamic programming.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planning/run_cost.h"
#include "tensor/shape_bucket.h"

namespace stoker {

struct ShapeLoad {
  DimensionSizes sizes;
  double runs = 0;  // any unit, at least 0
  // Of a run that no bucket holds, where BucketProblem::eager is wrong for it;
  // 0: it isn't.
  double outside_cost = 0;
};

struct BucketProblem {
  std::vector<ShapeLoad> loads;
  std::vector<bool> paddable;  // by dimension, as in BucketTable
  // No bucket is larger in any dimension; loads may be.
  DimensionSizes largest;
  RunCost compiled;  // of a run in a bucket, by the bucket's sizes
  // Of a run that no bucket holds, by its own sizes; nullopt: it is refused,
  // and to be avoided at any cost.
  std::optional<RunCost> eager;
  int max_buckets = 0;  // 0 to kMostBuckets
};

inline constexpr int kMostBuckets = 256;

// INVALID_ARGUMENT when sizes don't fit together or a number is none.
absl::Status CheckProblem(const BucketProblem& problem);

// By load: index of the cheapest bucket that holds it, of equally cheap ones
// the first; -1: none does.
std::vector<int> AssignLoads(const BucketProblem& problem,
                             absl::Span<const ShapeBucket> buckets);

// Time of all runs with these buckets, in the units of the costs. A refused run
// counts a thousand times what a bucket of its own size would take.
double ExpectedCost(const BucketProblem& problem,
                    absl::Span<const ShapeBucket> buckets);

// At most max_buckets, sorted by sizes; fewer where more would not help.
// INVALID_ARGUMENT as CheckProblem. Takes tens of milliseconds for a thousand
// loads.
absl::StatusOr<std::vector<ShapeBucket>> ProposeBuckets(
    const BucketProblem& problem);

}  // namespace stoker
