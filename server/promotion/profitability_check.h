// Is the candidate faster here? Interleaved timed runs, judged by the median of
// the paired ratios and a distribution-free confidence interval for it: two
// order statistics, by the binomial distribution (Conover, Practical
// Nonparametric Statistics, 3.2). Runs until the interval decides.
//
// Measuring runs on the thread that owns the ExecutionContext; judging is pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "promotion/verdict.h"
#include "runner/executable.h"

namespace stoker {

struct ProfitMeasurement {
  // seconds[i] of pair i; equal lengths.
  std::vector<double> incumbent;
  std::vector<double> candidate;
  int threads = 0;         // compute threads; where runs differed, the fewest
  int fewest_threads = 0;  // that runs may be given on a busy host
  size_t pairs() const { return candidate.size(); }
};

// What the two hold in memory: it decides where their speed does not.
struct ProfitSizes {
  int64_t incumbent_bytes = 0;
  int64_t candidate_bytes = 0;
};

struct ProfitOptions {
  size_t most_pairs = 1000;
  // Ends undecided once this is spent, after `fewest_pairs` at least...
  absl::Duration budget = absl::Seconds(5);
  size_t fewest_pairs = 11;
  // ...or, for a model that runs for seconds, once this is, after one pair.
  absl::Duration patience = absl::Seconds(30);
  // Speeds closer than this are the same speed.
  double tie = 0.02;
  // Ends undecided after a quarter of the budget and this many pairs, where the
  // candidate was the faster one in each by more than `tie`; 0: goes on until
  // the interval decides.
  size_t promising_pairs = 0;
};

// Of the median of paired ratios, incumbent / candidate. Unbounded (0 to
// infinity) for fewer than 11 pairs, which can't reach its confidence of
// 99.7 %.
struct SpeedupInterval {
  double median = 0;
  double low = 0;
  double high = 0;
};
SpeedupInterval EstimateSpeedup(const ProfitMeasurement& measurement);

// Whether that much, measured in this time, is enough to judge by. The interval
// is looked at after 11, 14, 18, ... pairs only: whoever looks often enough
// sees chance decide.
bool IsEnough(const ProfitMeasurement& measurement, absl::Duration spent,
              const ProfitOptions& options);

// Adds pairs, at least one, until the interval is to be looked at or
// `stretch` has passed: the thread has other work too. In the first pair, and
// while runs are short, each form runs once before it is timed: memory is
// touched and caches are filled.
absl::Status MeasurePairs(Executable& incumbent, Executable& candidate,
                          ExecutionContext& context,
                          absl::Span<const Tensor> inputs, Clock& clock,
                          absl::Duration stretch,
                          ProfitMeasurement& measurement);

// Worth it is what is faster beyond the interval, or as fast and smaller. Where
// the interval does not decide, the median does, within `tie` for the
// candidate, and the outcome is not clear. The machine is the caller's to say.
Profit JudgeProfit(const ProfitMeasurement& measurement,
                   const ProfitSizes& sizes, const ProfitOptions& options);

}  // namespace stoker
