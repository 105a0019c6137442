// Copies between row-major tensors of one rank and different sizes: growing one
// (the added part is filled with a pad value) and cutting one. Pure functions
// on bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "tensor/tensor.h"

namespace stoker {

// The first DataTypeSize(dtype) bytes are one element of the dtype.
using ElementBytes = std::array<std::byte, 8>;

// `value` as one element: rounded to nearest even for floating-point types,
// truncated and saturated for integers (NaN: 0), `value != 0` for kBool.
ElementBytes EncodeElement(double value, DataType dtype);

// Writes `element` `count` times to `out`.
void FillElements(std::byte* out, int64_t count, size_t element_size,
                  const ElementBytes& element);

// Writes the whole of `to` (shape `to_shape`): the corner that both shapes
// share comes from `from`, the rest is `pad`. Each byte is written once, and
// the longest runs that are contiguous in both are copied whole. The shapes
// have one rank; sizes are not negative.
void CopyResized(const std::byte* from, absl::Span<const int64_t> from_shape,
                 std::byte* to, absl::Span<const int64_t> to_shape,
                 size_t element_size, const ElementBytes& pad);

}  // namespace stoker
