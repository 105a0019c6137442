// Made-up inputs: the same on every host, within their domains.
#include "promotion/seeded_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "promotion/half_float.h"
#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Gt;
using ::testing::Lt;

// The numbers come from an independent implementation of the generator.
TEST(SeededInputsTest, AreTheSameOnEveryHost) {
  const InputDomain domains[] = {
      {.dtype = DataType::kInt64, .shape = {4}, .low = 0, .high = 999},
      {.dtype = DataType::kFp32, .shape = {3}, .low = -1, .high = 1},
      {.dtype = DataType::kFp64, .shape = {2}, .normal = true}};
  const std::vector<Tensor> inputs = SeededInputs(domains, 7);
  ASSERT_EQ(inputs.size(), 3u);
  const auto* integers = reinterpret_cast<const int64_t*>(inputs[0].data);
  EXPECT_THAT(std::vector(integers, integers + 4),
              ::testing::ElementsAre(721, 649, 549, 604));
  const auto* floats = reinterpret_cast<const float*>(inputs[1].data);
  EXPECT_THAT(
      std::vector(floats, floats + 3),
      ::testing::ElementsAre(0x1.2a7eaep-6f, 0x1.014b16p-1f, 0x1.9c66a2p-1f));
  const auto* normals = reinterpret_cast<const double*>(inputs[2].data);
  EXPECT_THAT(std::vector(normals, normals + 2),
              ::testing::ElementsAre(-0x1.461e0228p-2, -0x1.57c11838p-3));
}

TEST(SeededInputsTest, DependOnTheSeedAndNotOnTheNeighbours) {
  const InputDomain first{.dtype = DataType::kInt32, .shape = {5}, .high = 9};
  const InputDomain second{.dtype = DataType::kFp32, .shape = {64}};
  const InputDomain longer{.dtype = DataType::kInt32, .shape = {50}, .high = 9};
  const auto bytes = [](const Tensor& tensor) {
    return std::string(reinterpret_cast<const char*>(tensor.data),
                       tensor.byte_size);
  };
  const auto a = SeededInputs(std::vector{first, second}, 1);
  EXPECT_EQ(bytes(a[1]), bytes(SeededInputs(std::vector{first, second}, 1)[1]));
  EXPECT_EQ(bytes(a[1]),
            bytes(SeededInputs(std::vector{longer, second}, 1)[1]));
  EXPECT_NE(bytes(a[1]), bytes(SeededInputs(std::vector{first, second}, 2)[1]));
}

TEST(SeededInputsTest, MayBeTheEndsOfTheirRanges) {
  const InputDomain domains[] = {{.dtype = DataType::kInt64,
                                  .shape = {64},
                                  .low = 0,
                                  .high = 30521,
                                  .extremes = true},
                                 {.dtype = DataType::kFp32,
                                  .shape = {64},
                                  .low = -1,
                                  .high = 1,
                                  .extremes = true},
                                 {.dtype = DataType::kFp32,
                                  .shape = {500},
                                  .normal = true,
                                  .extremes = true}};
  const std::vector<Tensor> inputs = SeededInputs(domains, 3);
  EXPECT_THAT(ValuesOf<int64_t>(inputs[0]),
              AllOf(Each(AnyOf(0, 30521)), Contains(0), Contains(30521)));
  EXPECT_THAT(ValuesOf<float>(inputs[1]),
              AllOf(Each(AnyOf(-1, 1)), Contains(-1), Contains(1)));
  const std::vector<float> normals = ValuesOf<float>(inputs[2]);
  int large = 0;
  for (const float value : normals) {
    if (std::abs(value) <= 1e-30F) continue;
    ++large;
    EXPECT_GT(std::exp(std::abs(value)), std::numeric_limits<float>::max());
    EXPECT_LE(std::abs(value), 111);
  }
  EXPECT_THAT(large, AllOf(Gt(150), Lt(250)));
  EXPECT_THAT(normals, AllOf(Contains(0), Contains(1e-30F), Contains(-1e-30F)));
}

TEST(SeededInputsTest, MayBeInOrder) {
  const InputDomain domains[] = {{.dtype = DataType::kFp32,
                                  .shape = {3, 50},
                                  .normal = true,
                                  .pattern = InputDomain::Pattern::kAscending},
                                 {.dtype = DataType::kInt64,
                                  .shape = {50},
                                  .high = 999,
                                  .pattern = InputDomain::Pattern::kAscending}};
  const std::vector<Tensor> inputs = SeededInputs(domains, 7);
  const auto* floats = reinterpret_cast<const float*>(inputs[0].data);
  EXPECT_FALSE(std::is_sorted(floats, floats + 150));
  for (int row = 0; row < 3; ++row, floats += 50) {
    EXPECT_TRUE(std::is_sorted(floats, floats + 50));
  }
  const auto* integers = reinterpret_cast<const int64_t*>(inputs[1].data);
  EXPECT_TRUE(std::is_sorted(integers, integers + 50));
  EXPECT_NE(integers[0], integers[49]);
}

TEST(SeededInputsTest, SquareMatricesMayHaveARoot) {
  const InputDomain domains[] = {{.dtype = DataType::kFp64,
                                  .shape = {2, 5, 5},
                                  .low = 0,
                                  .high = 0.1,
                                  .pattern = InputDomain::Pattern::kDiagonal}};
  const Tensor input = SeededInputs(domains, 7)[0];
  const auto* values = reinterpret_cast<const double*>(input.data);
  for (int m = 0; m < 2; ++m) {
    for (int i = 0; i < 5; ++i) {
      for (int j = 0; j < 5; ++j) {
        const double value = values[m * 25 + i * 5 + j];
        EXPECT_EQ(value, values[m * 25 + j * 5 + i]);
        if (i == j) {
          EXPECT_GE(value, 5);
        } else {
          EXPECT_LE(value, 0.1);
        }
      }
    }
  }
}

template <typename T>
void ExpectIntegersFill(DataType dtype, double low, double high) {
  const InputDomain domains[] = {
      {.dtype = dtype, .shape = {10, 100}, .low = low, .high = high}};
  const Tensor input = SeededInputs(domains, 3)[0];
  ASSERT_EQ(input.byte_size, 1000 * sizeof(T));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(input.data) % 64, 0u);
  const auto* values = reinterpret_cast<const T*>(input.data);
  double least = values[0], greatest = values[0];
  for (int i = 0; i < 1000; ++i) {
    least = std::min(least, static_cast<double>(values[i]));
    greatest = std::max(greatest, static_cast<double>(values[i]));
  }
  EXPECT_EQ(least, low) << DataTypeName(dtype);
  EXPECT_EQ(greatest, high) << DataTypeName(dtype);
}

TEST(SeededInputsTest, IntegersFillTheClosedRange) {
  ExpectIntegersFill<uint8_t>(DataType::kBool, 0, 1);
  ExpectIntegersFill<uint8_t>(DataType::kUint8, 3, 9);
  ExpectIntegersFill<uint16_t>(DataType::kUint16, 3, 9);
  ExpectIntegersFill<uint32_t>(DataType::kUint32, 3, 9);
  ExpectIntegersFill<uint64_t>(DataType::kUint64, 3, 9);
  ExpectIntegersFill<int8_t>(DataType::kInt8, -3, 9);
  ExpectIntegersFill<int16_t>(DataType::kInt16, -3, 9);
  ExpectIntegersFill<int32_t>(DataType::kInt32, -3, 9);
  ExpectIntegersFill<int64_t>(DataType::kInt64, -3, 9);
}

TEST(SeededInputsTest, RangesWiderThanTheTypeAreHeldInside) {
  const InputDomain domains[] = {
      {.dtype = DataType::kInt8, .shape = {4096}, .low = -1e9, .high = 1e9},
      {.dtype = DataType::kUint64, .shape = {64}, .low = -1, .high = 1e30},
      {.dtype = DataType::kInt64, .shape = {64}, .low = -1e30, .high = 1e30},
      {.dtype = DataType::kBool, .shape = {64}, .low = -5, .high = 70}};
  const std::vector<Tensor> inputs = SeededInputs(domains, 0);
  const auto* bytes = reinterpret_cast<const int8_t*>(inputs[0].data);
  EXPECT_EQ(*std::min_element(bytes, bytes + 4096), -128);
  EXPECT_EQ(*std::max_element(bytes, bytes + 4096), 127);
  const auto* booleans = reinterpret_cast<const uint8_t*>(inputs[3].data);
  EXPECT_LE(*std::max_element(booleans, booleans + 64), 1);
}

TEST(SeededInputsTest, NormalNumbersHaveMeanNoughtAndVarianceOne) {
  const InputDomain domains[] = {
      {.dtype = DataType::kFp32, .shape = {100000}, .normal = true}};
  const Tensor input = SeededInputs(domains, 11)[0];
  const auto* values = reinterpret_cast<const float*>(input.data);
  double sum = 0, squares = 0;
  for (int i = 0; i < 100000; ++i) {
    sum += values[i];
    squares += static_cast<double>(values[i]) * values[i];
  }
  EXPECT_NEAR(sum / 100000, 0, 0.02);
  EXPECT_NEAR(squares / 100000, 1, 0.02);
}

TEST(SeededInputsTest, ScalarsAndEmptyShapes) {
  const InputDomain domains[] = {
      {.dtype = DataType::kFp16, .shape = {}, .low = 2, .high = 2},
      {.dtype = DataType::kBf16, .shape = {3, 0}}};
  const std::vector<Tensor> inputs = SeededInputs(domains, 5);
  ASSERT_EQ(inputs[0].byte_size, 2u);
  uint16_t half = 0;
  std::memcpy(&half, inputs[0].data, 2);
  EXPECT_EQ(HalfToFloat(half), 2.0f);
  EXPECT_EQ(inputs[1].byte_size, 0u);
}

}  // namespace
}  // namespace stoker
