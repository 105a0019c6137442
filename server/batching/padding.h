// Copies between row-major tensors of one rank and different sizes: growing one
// (the added part is filled with a pad value) and cutting one. Pure functions
// on bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "tensor/element.h"

namespace stoker {

// Writes the whole of `to` (shape `to_shape`): the corner that both shapes
// share comes from `from`, the rest is `pad`. Each byte is written once, and
// the longest runs that are contiguous in both are copied whole. The shapes
// have one rank; sizes are not negative.
void CopyResized(const std::byte* from, absl::Span<const int64_t> from_shape,
                 std::byte* to, absl::Span<const int64_t> to_shape,
                 size_t element_size, const ElementBytes& pad);

}  // namespace stoker
