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

// Product of the sizes; 1 without any.
double Volume(absl::Span<const int64_t> sizes);

struct RunCost {
  double fixed = 0;        // at least 0
  double per_element = 0;  // more than 0
  // The largest |estimate / measured - 1| of the fit; nullopt where nothing was
  // measured.
  std::optional<double> worst_error;

  double operator()(absl::Span<const int64_t> sizes) const {
    return fixed + per_element * Volume(sizes);
  }
  bool measured() const { return worst_error.has_value(); }
};

// Without a measurement a run is taken to cost as much as one of this many
// elements more: launching a run of MiniLM takes as long as 14 tokens of it.
inline constexpr double kAssumedLaunchElements = 16;

// Least squares of relative errors, neither part negative: a bucket of twice
// the time may be off by twice as much. One volume alone tells nothing about
// the parts, so their ratio is assumed then. Without a run the result is in
// elements instead of seconds, and not measured(). Runs of no time, or of one
// that is no number, are passed over.
RunCost FitRunCost(absl::Span<const MeasuredRun> runs);

}  // namespace stoker
