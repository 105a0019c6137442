// The buckets of loads that differ in any number of dimensions: candidates are
// added greedily and exchanged one at a time (planning/bucket_proposal.h names
// the sources).
//
// Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "planning/load_part.h"
#include "planning/run_cost.h"
#include "tensor/shape_bucket.h"

namespace stoker {

// A set of buckets for one part, changed one bucket at a time.
class BucketExchange {
 public:
  // The part outlives this object.
  BucketExchange(const LoadPart& part, const RunCost& compiled,
                 std::vector<ShapeBucket> candidates)
      : part_(part), compiled_(compiled), candidates_(std::move(candidates)) {}

  std::vector<ShapeBucket>& chosen() { return chosen_; }
  // Of all runs, with the buckets that are chosen.
  double Cost();

  // Adds the candidate that saves most, while any does, and returns the cost by
  // number of buckets. What a candidate saves only shrinks as others are added,
  // so old figures are bounds (Minoux, Accelerated Greedy Algorithms, 1978).
  std::vector<double> AddGreedily(size_t max_buckets);

  // Replaces one bucket by one candidate while that saves something.
  void Improve();

  // Removes what no load uses.
  void DropUnused();

 private:
  struct Held {
    int bucket = -1;    // the cheapest; -1: outside
    double cost = 0;    // of all runs of the load
    double second = 0;  // in the next best one; infinite without
  };

  void Assign();
  // Also where a bucket takes a load that ran cheaper outside.
  double GainOf(const ShapeBucket& bucket) const;
  // What the exchange of the best bucket to lose for `bucket` saves, and which
  // that is.
  std::pair<double, size_t> BestExchange(const ShapeBucket& bucket);

  const LoadPart& part_;
  const RunCost compiled_;
  std::vector<ShapeBucket> candidates_;
  std::vector<ShapeBucket> chosen_;
  std::vector<Held> held_;  // by point, of chosen_
  double total_ = 0;
  std::vector<double> losses_;  // of BestExchange, kept for its memory
};

// Every combination of the sizes that occur in the dimensions `varying`,
// thinned where they are too many.
std::vector<ShapeBucket> ProductOfSizes(const LoadPart& part,
                                        const std::vector<size_t>& varying);

}  // namespace stoker
