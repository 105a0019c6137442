// torch.export's numbers for dtypes and layouts (torch/_export/serde/schema.py,
// ScalarType and Layout; their values are part of the archive's format).
#pragma once

#include <cstdint>
#include <optional>

#include "tensor/tensor.h"

namespace stoker {

inline constexpr int64_t kStridedLayout = 7;

// The protocol's dtype; nullopt for the ones it hasn't got (complex, 8-bit
// floats).
std::optional<DataType> DataTypeOfScalarType(int64_t code);

// Bytes per element of any dtype that can be stored; nullopt for unknown codes.
std::optional<int64_t> ScalarTypeBytes(int64_t code);

}  // namespace stoker
