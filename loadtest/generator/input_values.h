// Seeded values of an input, as the protocol's raw bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "loadtest/generator/random.h"
#include "loadtest/generator/scenario.h"
#include "tensor/tensor.h"

namespace stoker::loadtest {

// OK, or INVALID_ARGUMENT when the datatype can't hold the range, or holds no
// integer of it.
absl::Status CheckRange(DataType dtype, const ValueRange& range);

// `count` elements: integers are drawn from the closed range (0..1 without
// one), floats evenly from it (N(0, 1) without one), BOOL is even odds, BYTES
// elements are 16 hexadecimal digits each, with their length before them.
std::string RawValues(DataType dtype, int64_t count,
                      const std::optional<ValueRange>& range, Random& random);

}  // namespace stoker::loadtest
