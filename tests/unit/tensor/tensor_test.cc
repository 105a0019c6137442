#include "tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace stoker {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

struct TypeCase {
  DataType dtype;
  std::string_view name;
  size_t size;
  bool integer;
  bool floating;
};

const TypeCase kTypeCases[] = {
    {DataType::kBool, "BOOL", 1, false, false},
    {DataType::kUint8, "UINT8", 1, true, false},
    {DataType::kUint16, "UINT16", 2, true, false},
    {DataType::kUint32, "UINT32", 4, true, false},
    {DataType::kUint64, "UINT64", 8, true, false},
    {DataType::kInt8, "INT8", 1, true, false},
    {DataType::kInt16, "INT16", 2, true, false},
    {DataType::kInt32, "INT32", 4, true, false},
    {DataType::kInt64, "INT64", 8, true, false},
    {DataType::kFp16, "FP16", 2, false, true},
    {DataType::kFp32, "FP32", 4, false, true},
    {DataType::kFp64, "FP64", 8, false, true},
    {DataType::kBf16, "BF16", 2, false, true},
    {DataType::kBytes, "BYTES", 0, false, false},
};

TEST(DataTypeTest, EveryTypeHasItsProtocolNameAndSize) {
  for (const TypeCase& c : kTypeCases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(DataTypeName(c.dtype), c.name);
    EXPECT_EQ(DataTypeSize(c.dtype), c.size);
    EXPECT_EQ(IsInteger(c.dtype), c.integer);
    EXPECT_EQ(IsFloating(c.dtype), c.floating);
    EXPECT_EQ(ParseDataType(c.name), c.dtype);
  }
}

TEST(DataTypeTest, LimitsAreHeldByTheElement) {
  const struct {
    DataType dtype;
    double least;
    double most;
  } cases[] = {
      {DataType::kBool, 0, 1},
      {DataType::kUint8, 0, 255},
      {DataType::kInt8, -128, 127},
      {DataType::kUint16, 0, 65535},
      {DataType::kInt16, -32768, 32767},
      {DataType::kUint32, 0, 4294967295},
      {DataType::kInt32, -2147483648.0, 2147483647},
      {DataType::kUint64, 0, 9007199254740992},
      {DataType::kInt64, -9007199254740992, 9007199254740992},
      {DataType::kFp16, -65504, 65504},
      {DataType::kFp32, -std::numeric_limits<float>::max(),
       std::numeric_limits<float>::max()},
      {DataType::kFp64, -std::numeric_limits<double>::max(),
       std::numeric_limits<double>::max()},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(DataTypeName(c.dtype));
    EXPECT_EQ(LimitsOf(c.dtype).least, c.least);
    EXPECT_EQ(LimitsOf(c.dtype).most, c.most);
  }
  EXPECT_GT(LimitsOf(DataType::kBytes).least, LimitsOf(DataType::kBytes).most);
}

TEST(DataTypeTest, NamesAreMatchedExactly) {
  for (std::string_view name : {"", "fp32", "FP8", "INT", "INT64 ", "STRING"}) {
    EXPECT_EQ(ParseDataType(name), std::nullopt) << name;
  }
}

TEST(ElementCountTest, Table) {
  const struct {
    std::vector<int64_t> shape;
    std::optional<int64_t> count;
  } cases[] = {
      {{}, 1},
      {{0}, 0},
      {{7}, 7},
      {{2, 3, 4}, 24},
      {{2, 0, 4}, 0},
      {{-1}, std::nullopt},
      {{2, -1}, std::nullopt},
      {{0, -1}, std::nullopt},
      {{kMax}, kMax},
      {{kMax, 1}, kMax},
      {{kMax, 2}, std::nullopt},
      {{int64_t{1} << 32, int64_t{1} << 32}, std::nullopt},
      {{int64_t{1} << 31, int64_t{1} << 31}, int64_t{1} << 62},
      // Whatever the other sizes, nothing is in it.
      {{kMax, kMax, 0}, 0},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(ElementCount(c.shape), c.count) << ShapeString(c.shape);
  }
}

TEST(ShapeStringTest, Table) {
  EXPECT_EQ(ShapeString({}), "[]");
  EXPECT_EQ(ShapeString({5}), "[5]");
  EXPECT_EQ(ShapeString({1, -1, 16}), "[1,-1,16]");
}

TEST(BufferTest, IsAlignedAndWritableToItsLastByte) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{63}, size_t{4097}}) {
    Buffer buffer(size);
    EXPECT_EQ(buffer.size(), size);
    ASSERT_NE(buffer.data(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    std::memset(buffer.data(), 0x5a, size);
  }
}

TEST(BufferTest, SharedOwnerOutlivesTheBuffer) {
  Tensor tensor;
  {
    Buffer buffer(4);
    std::memcpy(buffer.data(), "abcd", 4);
    tensor.data = buffer.data();
    tensor.owner = buffer.share();
  }
  EXPECT_EQ(std::memcmp(tensor.data, "abcd", 4), 0);
}

}  // namespace
}  // namespace stoker
