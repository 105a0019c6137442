// The buckets of loads that differ in one dimension, by dynamic programming
// over the sorted sizes (planning/bucket_proposal.h names the sources), and how
// independent sets of loads share a number of buckets.
//
// Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <vector>

namespace stoker {

// Sorted sizes of one dimension: how many runs each has, what they cost outside
// all buckets, and what a run in a bucket of this size costs. `costs` ascends.
struct Line {
  std::vector<double> runs;
  std::vector<double> outside;
  std::vector<double> costs;
};

// The least cost of a line with at most k buckets, for k up to a limit. A run
// uses the smallest bucket that holds it; those beyond the largest run outside.
class LineSolver {
 public:
  // The line outlives this object. `keep_cuts`: for Ends.
  LineSolver(const Line& line, size_t max_buckets, bool keep_cuts);

  // By number of buckets, from 0; never ascends.
  const std::vector<double>& curve() const { return curve_; }

  // Indices of the sizes that are buckets; the solver has kept its cuts.
  std::vector<size_t> Ends(size_t buckets) const;

 private:
  // By the number of sizes that are covered, the last of them a bucket.
  struct Row {
    std::vector<double> costs;
    std::vector<int> cuts;  // how many the buckets before the last one cover
  };

  // Sizes [begin, end) of the row, whose best cuts lie within [low, high].
  void Fill(const std::vector<double>& before, size_t begin, size_t end,
            size_t low, size_t high, Row& row) const;
  void AddRow(Row row);

  const Line& line_;
  const size_t size_;
  const bool keep_cuts_;
  std::vector<double> runs_before_;
  std::vector<double> outside_before_;
  std::vector<Row> rows_;      // all of them, or the last
  std::vector<double> curve_;  // by number of buckets
  std::vector<size_t> ends_;   // sizes covered then
};

// curve[k]: the least cost of `left` and `right` together with k buckets, and
// how many of them `right` gets.
struct SharedBuckets {
  std::vector<double> curve;
  std::vector<size_t> right;
};

SharedBuckets ShareBuckets(const std::vector<double>& left,
                           const std::vector<double>& right,
                           size_t max_buckets);

}  // namespace stoker
