#include "program/scalar_type.h"

namespace stoker {
namespace {

struct Row {
  std::optional<ScalarType> type;  // nullopt: not in the archive's format
  std::string_view name;           // torch's
  size_t bytes;
  std::optional<DataType> dtype;
};

constexpr Row kRows[] = {
    {ScalarType::kByte, "uint8", 1, DataType::kUint8},
    {ScalarType::kChar, "int8", 1, DataType::kInt8},
    {ScalarType::kShort, "int16", 2, DataType::kInt16},
    {ScalarType::kInt, "int32", 4, DataType::kInt32},
    {ScalarType::kLong, "int64", 8, DataType::kInt64},
    {ScalarType::kHalf, "float16", 2, DataType::kFp16},
    {ScalarType::kFloat, "float32", 4, DataType::kFp32},
    {ScalarType::kDouble, "float64", 8, DataType::kFp64},
    {ScalarType::kComplexHalf, "complex32", 4, std::nullopt},
    {ScalarType::kComplexFloat, "complex64", 8, std::nullopt},
    {ScalarType::kComplexDouble, "complex128", 16, std::nullopt},
    {ScalarType::kBool, "bool", 1, DataType::kBool},
    {ScalarType::kBFloat16, "bfloat16", 2, DataType::kBf16},
    {ScalarType::kUInt16, "uint16", 2, DataType::kUint16},
    {ScalarType::kFloat8E4M3FN, "float8_e4m3fn", 1, std::nullopt},
    {ScalarType::kFloat8E5M2, "float8_e5m2", 1, std::nullopt},
    {ScalarType::kFloat8E4M3FNUZ, "float8_e4m3fnuz", 1, std::nullopt},
    {ScalarType::kFloat8E5M2FNUZ, "float8_e5m2fnuz", 1, std::nullopt},
    {std::nullopt, "uint32", 4, DataType::kUint32},
    {std::nullopt, "uint64", 8, DataType::kUint64},
};

}  // namespace

std::optional<ScalarType> ScalarTypeOfCode(int64_t code) {
  for (const Row& row : kRows) {
    if (row.type && static_cast<int64_t>(*row.type) == code) return row.type;
  }
  return std::nullopt;
}

size_t ScalarTypeBytes(ScalarType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return row.bytes;
  }
  return 0;  // not reached: every ScalarType has a row
}

std::optional<DataType> DataTypeOf(ScalarType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DataType> DataTypeOfTorchName(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace stoker
