// What a run of given sizes takes, fitted to runs that were measured: a fixed
// part for launching it and a part per element. Immutable value.
#pragma once

#include <optional>

#include "absl/types/span.h"
#include "tensor/shape_bucket.h"

namespace stoker {

struct MeasuredRun {
  DimensionSizes sizes;
  double seconds = 0;  // more than 0
};

struct RunCost {
  double fixed = 0;        // at least 0
  double per_element = 0;  // more than 0
  // The mean of |estimate / measured - 1|; nullopt where nothing was
  // measured.
  std::optional<double> mean_error;

  double operator()(absl::Span<const int64_t> sizes) const {
    return fixed + per_element * Volume(sizes);
  }
  bool measured() const { return mean_error.has_value(); }
};

// Without a measurement a run is taken to cost as much as one of this many
// elements more: launching a run of MiniLM takes as long as 14 tokens of it.
inline constexpr double kAssumedLaunchElements = 16;

// The least sum of |estimate / measured - 1|, neither part negative. Runs on a
// busy machine take longer, by a hundred times where threads wait for each
// other, never shorter; as each of them counts 1 at most, they don't bend the
// line. It leads through two of the runs, or through one and the origin
// (Bloomfield and Steiger, Least Absolute Deviations, 1983), so that all such
// lines are tried, with the first 200 runs. One volume alone tells nothing
// about the parts, so their ratio is assumed then. Without a run the result is
// in elements instead of seconds, and not measured(). Runs of no time, or of
// one that is no number, are passed over.
RunCost FitRunCost(absl::Span<const MeasuredRun> runs);

}  // namespace stoker
