// The buckets of loads that differ in two dimensions, or in fewer: sizes of the
// one with fewer are grouped, and each group has buckets of its own along the
// other (planning/bucket_proposal.h).
//
// Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "planning/line_solver.h"
#include "planning/load_part.h"
#include "planning/run_cost.h"
#include "tensor/shape_bucket.h"

namespace stoker {

class GridSolver {
 public:
  // `varying`: the dimensions that the loads differ in, at most two.
  GridSolver(const LoadPart& part, std::vector<size_t> varying,
             const RunCost& compiled, size_t max_buckets);

  // The least cost by number of buckets, from 0.
  const std::vector<double>& curve() const { return best_.back().curve; }

  // The best `count` buckets, or as many as help.
  std::vector<ShapeBucket> Buckets(size_t count) const;

  // Along each dimension, what exchanges may choose from.
  std::vector<ShapeBucket> Candidates() const;

 private:
  // The first `n` outer sizes: the least cost by number of buckets, where the
  // last group begins then, and how many buckets are its own.
  struct Best {
    std::vector<double> curve;
    std::vector<size_t> begins;
    std::vector<size_t> own;
  };

  DimensionSizes Sizes(size_t outer, size_t inner) const;
  // Outer sizes [begin, end), all padded to the last of them.
  Line Group(size_t begin, size_t end) const;
  void GroupOuter();

  const DimensionSizes base_;
  const RunCost compiled_;
  const size_t most_;
  // Nullopt where the part's loads don't differ in so many dimensions.
  std::optional<size_t> inner_dimension_, outer_dimension_;
  std::vector<int64_t> inner_ = {0}, outer_ = {0};
  std::vector<std::vector<double>> runs_, outside_;  // by outer, by inner
  std::vector<Best> best_;                           // by number of outer sizes
};

}  // namespace stoker
