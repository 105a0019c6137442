// Is the candidate faster here? Interleaved timed runs, judged by the median of
// the paired ratios.
//
// Measuring runs on the thread that owns the ExecutionContext; judging is pure.
#pragma once

#include "absl/status/statusor.h"
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
};

struct ProfitOptions {
  int pairs = 21;
  // Stops early once this is spent, after `fewest_pairs` at least...
  absl::Duration budget = absl::Seconds(2);
  int fewest_pairs = 5;
  // ...or, for a model that runs for seconds, once this is, after one pair.
  absl::Duration patience = absl::Seconds(30);
  // Below it compiled would cost more than 2 %.
  double min_speedup = 0.98;
};

// Whether that many pairs, measured in this time, are enough to judge by.
bool IsEnough(int pairs, absl::Duration spent, const ProfitOptions& options);

absl::StatusOr<ProfitMeasurement> MeasureProfit(Executable& incumbent,
                                                Executable& candidate,
                                                ExecutionContext& context,
                                                absl::Span<const Tensor> inputs,
                                                Clock& clock,
                                                const ProfitOptions& options);

// Fills speedup, seconds, promote and reason. Refuses when the pairs show a
// loss: a sign test at the 5 % level over the pairs below min_speedup. Fewer
// than five pairs can't reach that level: they refuse when each of them shows a
// loss of a fifth. A noisy machine alone must not refuse, because a verdict is
// kept.
Verdict JudgeProfit(const ProfitMeasurement& measurement,
                    const ProfitOptions& options);

}  // namespace stoker
