// The buckets of a model whose operator hasn't chosen any.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "repository/model_spec.h"

namespace stoker {

// Each bucket is a compile of tens of seconds and a warm-up step of every
// start.
inline constexpr size_t kMaxBuckets = 256;

// Per dimension, ascending sizes within its bounds: 1 and 8 for the batch (at
// most `max_batch`, where given), for others up to four, each a quarter of the
// next, the last being the upper bound (512 without one), fewer where the
// product of all would pass 16.
std::vector<std::vector<int64_t>> DefaultSizes(
    const ModelSpec& spec, std::optional<int64_t> max_batch);

// Every combination of one size per dimension, the last dimension varying
// fastest; one bucket without sizes for no dimensions. Nullopt when they are
// more than kMaxBuckets.
std::optional<std::vector<ShapeBucket>> Product(
    const std::vector<std::vector<int64_t>>& sizes);

}  // namespace stoker
