// Inputs of the program "dtypes": one of every element type, and what it
// answers.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/unit/runner/torch_fixture.h"

namespace stoker {

struct DtypeCase {
  Tensor input;
  Tensor expected;
};

// x + 1, but the complement of a boolean and uint16 as it is.
inline std::vector<DtypeCase> DtypeCases() {
  const Shape shape = {2, 3};
  const auto integers = [&]<typename T>(DataType dtype, T first, T step) {
    std::vector<T> in, out;
    for (int i = 0; i < 6; ++i) {
      in.push_back(static_cast<T>(first + i));
      out.push_back(static_cast<T>(first + i + step));
    }
    return DtypeCase{MakeTensor(dtype, shape, in),
                     MakeTensor(dtype, shape, out)};
  };
  const auto bits = [&](DataType dtype, uint16_t in, uint16_t out) {
    return DtypeCase{MakeTensor(dtype, shape, std::vector<uint16_t>(6, in)),
                     MakeTensor(dtype, shape, std::vector<uint16_t>(6, out))};
  };
  return {
      {MakeTensor<uint8_t>(DataType::kBool, shape, {0, 1, 0, 1, 1, 0}),
       MakeTensor<uint8_t>(DataType::kBool, shape, {1, 0, 1, 0, 0, 1})},
      integers(DataType::kUint8, uint8_t{249}, uint8_t{1}),
      integers(DataType::kUint16, uint16_t{65530}, uint16_t{0}),
      integers(DataType::kInt8, int8_t{-3}, int8_t{1}),
      integers(DataType::kInt16, int16_t{-30000}, int16_t{1}),
      integers(DataType::kInt32, int32_t{2000000000}, int32_t{1}),
      integers(DataType::kInt64, int64_t{9000000000000000000}, int64_t{1}),
      bits(DataType::kFp16, 0x3800, 0x3e00),  // 0.5 → 1.5
      bits(DataType::kBf16, 0x3f00, 0x3fc0),
      integers(DataType::kFp32, 0.5f, 1.0f),
      integers(DataType::kFp64, 1e-9, 1.0),
  };
}

}  // namespace stoker
