// Single elements as bytes, and memory filled with one. Pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

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

}  // namespace stoker
