#include "program/scalar_type.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(ScalarTypeTest, NumbersAreTheFormats) {
  EXPECT_EQ(ScalarTypeOfCode(7), ScalarType::kFloat);
  EXPECT_EQ(ScalarTypeOfCode(28), ScalarType::kUInt16);
  for (const int64_t code : {-1, 0, 14, 27, 33, 1 << 30}) {
    EXPECT_EQ(ScalarTypeOfCode(code), std::nullopt) << code;
  }
}

TEST(ScalarTypeTest, AnElementIsAsWideAsTheProtocols) {
  int of_the_protocol = 0;
  for (int64_t code = 0; code < 64; ++code) {
    const std::optional<ScalarType> type = ScalarTypeOfCode(code);
    if (!type) continue;
    EXPECT_EQ(static_cast<int64_t>(*type), code);
    EXPECT_GT(ScalarTypeBytes(*type), 0u) << code;
    const std::optional<DataType> dtype = DataTypeOf(*type);
    if (!dtype) continue;
    EXPECT_EQ(ScalarTypeBytes(*type), DataTypeSize(*dtype)) << code;
    ++of_the_protocol;
  }
  EXPECT_EQ(of_the_protocol, 11);
}

TEST(ScalarTypeTest, NamesAreTorchs) {
  EXPECT_EQ(DataTypeOfTorchName("float32"), DataType::kFp32);
  EXPECT_EQ(DataTypeOfTorchName("bfloat16"), DataType::kBf16);
  EXPECT_EQ(DataTypeOfTorchName("uint64"), DataType::kUint64);
  for (const char* name : {"complex64", "float8_e5m2", "torch.float32", ""}) {
    EXPECT_EQ(DataTypeOfTorchName(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace stoker
