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
  absl::Duration budget =
      absl::Seconds(2);  // stops early, after one pair at least
  // Below it compiled would cost more than 2 %.
  double min_speedup = 0.98;
};

absl::StatusOr<ProfitMeasurement> MeasureProfit(Executable& incumbent,
                                                Executable& candidate,
                                                ExecutionContext& context,
                                                absl::Span<const Tensor> inputs,
                                                Clock& clock,
                                                const ProfitOptions& options);

// Fills speedup, seconds, promote and reason. Refuses when the pairs show a
// loss: a sign test at the 5 % level over the pairs below min_speedup; with
// fewer than five pairs, which can't reach that level, by the median. A noisy
// machine alone must not refuse, because a verdict is kept.
Verdict JudgeProfit(const ProfitMeasurement& measurement,
                    const ProfitOptions& options);

}  // namespace stoker
