// Comparing two runs' outputs, seeded inputs, and the check that joins them.
#include "promotion/parity_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "promotion/half_float.h"
#include "tests/fakes/fake_executable.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

template <typename T>
Tensor MakeTensor(DataType dtype, Shape shape, const std::vector<T>& values) {
  const Buffer buffer(values.size() * sizeof(T));
  std::copy(values.begin(), values.end(), reinterpret_cast<T*>(buffer.data()));
  return {dtype, std::move(shape), buffer.data(), buffer.size(),
          buffer.share()};
}

Tensor Floats(const std::vector<float>& values) {
  return MakeTensor(DataType::kFp32, {static_cast<int64_t>(values.size())},
                    values);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct FloatCase {
  const char* name;
  std::vector<float> expected;
  std::vector<float> actual;
  bool equal;
  double max_abs_error;
};

class CompareFloatsTest : public ::testing::TestWithParam<FloatCase> {};

TEST_P(CompareFloatsTest, Judges) {
  const FloatCase& row = GetParam();
  const Tensor expected[] = {Floats(row.expected)};
  const Tensor actual[] = {Floats(row.actual)};
  const ParityResult result =
      CompareOutputs(expected, actual, {.rtol = 0.01, .atol = 0.001});
  EXPECT_EQ(result.equal, row.equal) << result.difference;
  EXPECT_EQ(result.difference.empty(), row.equal) << result.difference;
  if (std::isinf(row.max_abs_error)) {
    EXPECT_TRUE(std::isinf(result.max_abs_error));
  } else {
    EXPECT_NEAR(result.max_abs_error, row.max_abs_error, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, CompareFloatsTest,
    ::testing::Values(
        FloatCase{"Same", {1, 2}, {1, 2}, true, 0},
        FloatCase{"Empty", {}, {}, true, 0},
        FloatCase{"WithinRelative", {100}, {100.9f}, true, 0.9},
        FloatCase{"BeyondRelative", {100}, {101.1f}, false, 1.1},
        FloatCase{"WithinAbsolute", {0}, {0.0009f}, true, 0.0009},
        FloatCase{"BeyondAbsolute", {0}, {0.002f}, false, 0.002},
        FloatCase{"RelativeToTheExpected", {0}, {100}, false, 100},
        FloatCase{"NanBoth", {kNan}, {kNan}, true, 0},
        FloatCase{"NanOnlyCompiled", {1}, {kNan}, false, kInf},
        FloatCase{"NanOnlyEager", {kNan}, {1}, false, kInf},
        FloatCase{"InfinityBoth", {kInf, -kInf}, {kInf, -kInf}, true, 0},
        FloatCase{"InfinitySigns", {kInf}, {-kInf}, false, kInf},
        FloatCase{"InfinityAgainstLarge", {kInf}, {3e38f}, false, kInf},
        FloatCase{"SignedZeros", {0.0f}, {-0.0f}, true, 0}),
    [](const auto& test) { return test.param.name; });

TEST(CompareOutputsTest, NamesTheWorstElement) {
  const Tensor expected[] = {
      Floats({1}),
      MakeTensor<float>(DataType::kFp32, {2, 3}, {0, 0, 0, 0, 0, 0})};
  const Tensor actual[] = {
      Floats({1}),
      MakeTensor<float>(DataType::kFp32, {2, 3}, {0, 0.5f, 0, 0, 0, 2})};
  const ParityResult result = CompareOutputs(expected, actual, {});
  EXPECT_FALSE(result.equal);
  EXPECT_EQ(result.difference,
            "output 1[1,2]: eager 0, compiled 2 (2 of 6 elements differ)");
  EXPECT_EQ(result.max_abs_error, 2);
}

TEST(CompareOutputsTest, RefusesOtherForms) {
  const Tensor one[] = {Floats({1, 2})};
  const Tensor doubles[] = {MakeTensor<double>(DataType::kFp64, {2}, {1, 2})};
  const Tensor column[] = {MakeTensor<float>(DataType::kFp32, {2, 1}, {1, 2})};
  EXPECT_THAT(CompareOutputs(one, doubles, {}).difference,
              HasSubstr("eager FP32 [2], compiled FP64 [2]"));
  EXPECT_THAT(CompareOutputs(one, column, {}).difference,
              HasSubstr("eager FP32 [2], compiled FP32 [2,1]"));
  EXPECT_EQ(CompareOutputs(one, {}, {}).difference,
            "eager has 1 outputs, compiled 0");
}

TEST(CompareOutputsTest, IntegersAreExactWhateverTheTolerance) {
  const ParityTolerance loose{.rtol = 1, .atol = 1e9};
  const Tensor expected[] = {
      MakeTensor<int64_t>(DataType::kInt64, {2}, {1, 2})};
  const Tensor actual[] = {MakeTensor<int64_t>(DataType::kInt64, {2}, {1, 3})};
  const ParityResult result = CompareOutputs(expected, actual, loose);
  EXPECT_FALSE(result.equal);
  EXPECT_EQ(result.difference,
            "output 0[1]: eager 2, compiled 3 (1 of 2 elements differ)");
  EXPECT_TRUE(CompareOutputs(expected, expected, loose).equal);
}

TEST(CompareOutputsTest, BooleansAreExact) {
  const Tensor expected[] = {MakeTensor<uint8_t>(DataType::kBool, {2}, {0, 1})};
  const Tensor actual[] = {MakeTensor<uint8_t>(DataType::kBool, {2}, {1, 1})};
  EXPECT_EQ(CompareOutputs(expected, actual, {}).difference,
            "output 0[0]: eager 0, compiled 1 (1 of 2 elements differ)");
}

TEST(CompareOutputsTest, SixteenBitFormatsGetAToleranceTheyCanMeet) {
  const auto halves = [](float value) {
    return std::vector{
        MakeTensor<uint16_t>(DataType::kFp16, {1}, {FloatToHalf(value)})};
  };
  const auto bfloats = [](float value) {
    return std::vector{
        MakeTensor<uint16_t>(DataType::kBf16, {1}, {FloatToBfloat(value)})};
  };
  // Two steps of the format apart, then far apart.
  EXPECT_TRUE(CompareOutputs(halves(8), halves(8 + 0x1p-6f), {}).equal);
  EXPECT_FALSE(CompareOutputs(halves(8), halves(8.2f), {}).equal);
  EXPECT_TRUE(CompareOutputs(bfloats(8), bfloats(8 + 0x1p-3f), {}).equal);
  EXPECT_FALSE(CompareOutputs(bfloats(8), bfloats(9), {}).equal);
  EXPECT_EQ(CompareOutputs(bfloats(8), bfloats(9), {}).max_abs_error, 1);
}

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

class CheckParityTest : public ::testing::Test {
 protected:
  static FakeExecutable::Script Scaled(float factor) {
    return [factor](absl::Span<const Tensor> inputs) {
      const auto* values = reinterpret_cast<const float*>(inputs[0].data);
      std::vector<float> scaled(values, values + 4);
      for (float& value : scaled) value *= factor;
      return RunResult{{Floats(scaled)}, {}};
    };
  }

  const std::vector<InputDomain> domains_ = {
      {.dtype = DataType::kFp32, .shape = {4}, .low = 1, .high = 2}};
  FakeExecutionContext context_;
};

TEST_F(CheckParityTest, EqualOverAllCases) {
  FakeExecutable eager("eager", Scaled(1));
  FakeExecutable compiled("aot", Scaled(1 + 1e-5f));
  const auto result = CheckParity(eager, compiled, context_, domains_, 3, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->equal) << result->difference;
  EXPECT_GT(result->max_abs_error, 0);
  EXPECT_LT(result->max_abs_error, 1e-4);
  EXPECT_EQ(eager.runs(), 3);
  EXPECT_EQ(compiled.runs(), 3);
}

TEST_F(CheckParityTest, StopsAtTheFirstDifference) {
  FakeExecutable eager("eager", Scaled(1));
  FakeExecutable compiled("aot", Scaled(2));
  const auto result = CheckParity(eager, compiled, context_, domains_, 3, {});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->equal);
  EXPECT_THAT(result->difference, HasSubstr("seed 0, output 0["));
  EXPECT_EQ(compiled.runs(), 1);
}

TEST_F(CheckParityTest, ARowThatOnlyTheCandidateRefusesIsADifference) {
  FakeExecutable eager("eager", Scaled(1));
  FakeExecutable compiled("aot", [](absl::Span<const Tensor> inputs) {
    RunResult result = *Scaled(1)(inputs);
    result.faults.push_back({2, "ids: index out of range"});
    return result;
  });
  const auto result = CheckParity(eager, compiled, context_, domains_, 3, {});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->equal);
  EXPECT_EQ(result->difference,
            "seed 0, compiled refused row 2, which eager answered: ids: index "
            "out of range");
}

TEST_F(CheckParityTest, AFailingRunIsAnErrorOfTheCheck) {
  FakeExecutable eager("eager", Scaled(1));
  FakeExecutable compiled("aot", Scaled(1));
  compiled.FailNext(1, absl::InternalError("no kernel"));
  EXPECT_EQ(CheckParity(eager, compiled, context_, domains_, 1, {}).status(),
            absl::InternalError("no kernel"));
  eager.FailNext(1, absl::InvalidArgumentError("bad value"));
  EXPECT_EQ(CheckParity(eager, compiled, context_, domains_, 1, {}).status(),
            absl::InvalidArgumentError("bad value"));
}

}  // namespace
}  // namespace stoker
