// torch.export's numbers for dtypes and layouts (torch/_export/serde/schema.py,
// ScalarType and Layout; their values are part of the archive's format), and
// the one table of what each of them is elsewhere. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/tensor.h"

namespace stoker {

inline constexpr int64_t kStridedLayout = 7;

// The dtypes that a program's tensors can be stored in.
enum class ScalarType : int {
  kByte = 1,
  kChar = 2,
  kShort = 3,
  kInt = 4,
  kLong = 5,
  kHalf = 6,
  kFloat = 7,
  kDouble = 8,
  kComplexHalf = 9,
  kComplexFloat = 10,
  kComplexDouble = 11,
  kBool = 12,
  kBFloat16 = 13,
  kUInt16 = 28,
  kFloat8E4M3FN = 29,
  kFloat8E5M2 = 30,
  kFloat8E4M3FNUZ = 31,
  kFloat8E5M2FNUZ = 32,
};

// The dtype of that number; nullopt for numbers that the format hasn't got.
std::optional<ScalarType> ScalarTypeOfCode(int64_t code);

// Bytes per element.
size_t ScalarTypeBytes(ScalarType type);

// The protocol's dtype; nullopt for the ones it hasn't got (complex, 8-bit
// floats).
std::optional<DataType> DataTypeOf(ScalarType type);

// The protocol's dtype by torch's name for it: "float32", "uint64". Knows the
// two, 32 and 64 bits unsigned, that programs compute with and can't store.
std::optional<DataType> DataTypeOfTorchName(std::string_view name);

}  // namespace stoker
