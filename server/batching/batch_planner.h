// Which of the waiting tasks run next, together, and in which bucket: chosen by
// what the buckets' runs cost, so that all that wait is done in the least time.
//
// Tasks are ordered by what they are padded to, and that order is cut into
// batches by dynamic programming: the cheapest way to run the tasks from i on
// is the cheapest bucket for the next k of them plus the cheapest way for the
// rest (batching of sorted jobs, as in Brucker, Scheduling Algorithms, ch. 8).
// Of these batches the one with the first task runs, filled up with whoever
// else fits into its bucket. So the longest waiting task is never overtaken by
// a batch, and five tasks become 4 + 1 where a bucket of 8 costs more than
// both.
//
// Not thread-safe: its owner's mutex guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "batching/lanes.h"

namespace stoker {

// A task that waits, as the planner sees it.
struct Candidate {
  int lane = -1;  // -1: runs alone
  int64_t rows = 1;
};

struct BatchPlan {
  // Ascending positions among the candidates, 0 always among them.
  std::vector<size_t> tasks;
  int bucket = -1;  // -1: no bucket holds it
  int64_t rows = 0;
  // A fuller batch of these tasks would cost less per row.
  bool gains_by_waiting = false;
};

class BatchPlanner {
 public:
  // The lanes outlive this object. `max_rows`, `max_tasks`: of a batch of
  // several tasks.
  BatchPlanner(const Lanes& lanes, int64_t max_rows,
               int64_t max_tasks = std::numeric_limits<int64_t>::max());

  // What a run of each bucket costs, in any unit.
  void SetCosts(absl::Span<const double> costs);

  // `candidates` in order of precedence, at least one. `in_order`: nobody
  // overtakes, so that a batch is the first task and those right behind it.
  BatchPlan Plan(absl::Span<const Candidate> candidates, bool in_order);

 private:
  struct Choice {
    int bucket = -1;
    double cost = 0;
  };
  // The cheapest bucket for a lane and a number of rows.
  Choice Cheapest(int lane, int64_t rows) const;
  // Cuts candidates, in the order of order_, into batches: cuts_[i] is how many
  // the batch takes that begins with the i-th.
  void CutIntoBatches(absl::Span<const Candidate> candidates);
  // Adds whoever fits into the room that the plan's bucket has left: it costs
  // nothing.
  void FillUp(absl::Span<const Candidate> candidates, BatchPlan& plan) const;
  bool GainsByWaiting(int lane, const BatchPlan& plan) const;

  const Lanes& lanes_;
  const int64_t max_rows_;
  const size_t max_tasks_;
  std::vector<std::vector<Choice>> choices_;  // by lane, by index of row size
  std::vector<double> lane_costs_;            // of a row, to order lanes by

  // Of Plan, kept for their memory.
  std::vector<size_t> order_;
  std::vector<double> rest_;
  std::vector<size_t> cuts_;
};

}  // namespace stoker
