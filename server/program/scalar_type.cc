#include "program/scalar_type.h"

namespace stoker {

std::optional<DataType> DataTypeOfScalarType(int64_t code) {
  switch (code) {
    case 1:
      return DataType::kUint8;
    case 2:
      return DataType::kInt8;
    case 3:
      return DataType::kInt16;
    case 4:
      return DataType::kInt32;
    case 5:
      return DataType::kInt64;
    case 6:
      return DataType::kFp16;
    case 7:
      return DataType::kFp32;
    case 8:
      return DataType::kFp64;
    case 12:
      return DataType::kBool;
    case 13:
      return DataType::kBf16;
    case 28:
      return DataType::kUint16;
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> ScalarTypeBytes(int64_t code) {
  switch (code) {
    case 9:  // complex half
      return 4;
    case 10:  // complex float
      return 8;
    case 11:  // complex double
      return 16;
    case 29:  // float8: e4m3fn, e5m2, e4m3fnuz, e5m2fnuz
    case 30:
    case 31:
    case 32:
      return 1;
    default:
      break;
  }
  const std::optional<DataType> dtype = DataTypeOfScalarType(code);
  if (!dtype) return std::nullopt;
  return static_cast<int64_t>(DataTypeSize(*dtype));
}

}  // namespace stoker
