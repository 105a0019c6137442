// Comparing two runs' outputs, with each other and with a float64 run.
#include "promotion/parity_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "promotion/half_float.h"
#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

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
  const Comparison result =
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
        FloatCase{"WithinAbsolute", {0, 2}, {0.0009f, 2}, true, 0.0009},
        FloatCase{"BeyondAbsolute", {0, 2}, {0.002f, 2}, false, 0.002},
        FloatCase{"NothingButNought", {0}, {0.0009f}, false, 0.0009},
        FloatCase{"RelativeToTheExpected", {0}, {100}, false, 100},
        FloatCase{"NanBoth", {kNan}, {kNan}, true, 0},
        FloatCase{"NanOnlyCompiled", {1}, {kNan}, false, kInf},
        FloatCase{"NanOnlyEager", {kNan}, {1}, false, kInf},
        FloatCase{"InfinityBoth", {kInf, -kInf}, {kInf, -kInf}, true, 0},
        FloatCase{"InfinitySigns", {kInf}, {-kInf}, false, kInf},
        FloatCase{"InfinityAgainstLarge", {kInf}, {3e38f}, false, kInf},
        FloatCase{"SignedZeros", {0.0f}, {-0.0f}, true, 0}),
    [](const auto& test) { return test.param.name; });

TEST(AllFiniteTest, LooksAtEveryFloatingOutput) {
  const Tensor integers = MakeTensor<int64_t>(DataType::kInt64, {1}, {1});
  EXPECT_TRUE(AllFinite({}));
  EXPECT_TRUE(AllFinite({integers, Floats({1, -1e30F, 0})}));
  EXPECT_FALSE(AllFinite({Floats({1}), Floats({0, kNan})}));
  EXPECT_FALSE(AllFinite({Floats({-kInf, 0}), integers}));
}

TEST(CompareOutputsTest, NamesTheWorstElement) {
  const Tensor expected[] = {
      Floats({1}),
      MakeTensor<float>(DataType::kFp32, {2, 3}, {0, 0, 0, 0, 0, 0})};
  const Tensor actual[] = {
      Floats({1}),
      MakeTensor<float>(DataType::kFp32, {2, 3}, {0, 0.5f, 0, 0, 0, 2})};
  const Comparison result = CompareOutputs(expected, actual, {});
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
  const Comparison result = CompareOutputs(expected, actual, loose);
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

// As a program's own float64 run would answer.
Tensor Doubles(const std::vector<double>& values) {
  return MakeTensor(DataType::kFp64, {static_cast<int64_t>(values.size())},
                    values);
}

TEST(CompareOutputsTest, SmallOutputsGetASmallAbsoluteTolerance) {
  const auto thousandths = [](float first) {
    return std::vector{Floats({first, 0.001f, 0.001f, 0.001f})};
  };
  // 2 % apart, and less than the tolerance for outputs of magnitude 1.
  const Comparison wrong =
      CompareOutputs(thousandths(0.001f), thousandths(0.00102f), {});
  EXPECT_FALSE(wrong.equal);
  EXPECT_TRUE(wrong.arguable);
  EXPECT_TRUE(
      CompareOutputs(thousandths(0.001f), thousandths(0.00100003f), {}).equal);
}

TEST(CompareOutputsTest, AllElementsTogetherMayBeHeldToLess) {
  const ParityTolerance tolerance{.rtol = 0.1, .atol = 0.1, .rms = 0.02};
  const Tensor expected[] = {Floats({1, -1, 1, -1})};
  const Tensor one_off[] = {Floats({1.03f, -1, 1, -1})};
  EXPECT_TRUE(CompareOutputs(expected, one_off, tolerance).equal);
  const Tensor all_off[] = {Floats({1.03f, -1.03f, 1.03f, -1.03f})};
  const Comparison result = CompareOutputs(expected, all_off, tolerance);
  EXPECT_FALSE(result.equal);
  EXPECT_FALSE(result.arguable);
  EXPECT_THAT(result.difference,
              HasSubstr("output 0: root mean square of the differences 0.03 "
                        "of the output's, more than 0.02"));
  // In proportion to the output.
  const Tensor small[] = {Floats({0.01f, -0.01f})};
  const Tensor small_off[] = {Floats({0.0103f, -0.0103f})};
  EXPECT_FALSE(CompareOutputs(small, small_off, tolerance).equal);
}

// Two rows of two.
Tensor Rows(const std::vector<float>& values) {
  return MakeTensor(DataType::kFp32, {2, 2}, values);
}

TEST(CompareOutputsTest, RowsMayBeHeldToTheirDirection) {
  const ParityTolerance tolerance{.rtol = 1, .atol = 1, .cosine = 0.9};
  const Tensor expected[] = {Rows({1, 0, 0, 1})};
  // Lengths don't matter.
  const Tensor longer[] = {Rows({1.5f, 0.1f, 0.1f, 0.5f})};
  EXPECT_TRUE(CompareOutputs(expected, longer, tolerance).equal);
  const Tensor turned[] = {Rows({1, 0, 1, 1})};
  const Comparison result = CompareOutputs(expected, turned, tolerance);
  EXPECT_FALSE(result.equal);
  EXPECT_FALSE(result.arguable);
  EXPECT_THAT(result.difference,
              HasSubstr("output 0: cosine of a row with its own 0.707107, less "
                        "than 0.9"));
  const Tensor zeros[] = {Rows({0, 0, 0, 0})};
  EXPECT_TRUE(CompareOutputs(zeros, zeros, tolerance).equal);
  EXPECT_FALSE(CompareOutputs(zeros, expected, tolerance).equal);
}

TEST(CompareOutputsTest, RowsMayBeHeldToTheirLargestElement) {
  const ParityTolerance tolerance{.rtol = 1, .atol = 1, .argmax = 0.75};
  const Tensor expected[] = {Rows({1, 0, 0, 1})};
  EXPECT_TRUE(CompareOutputs(expected, expected, tolerance).equal);
  const Tensor swapped[] = {Rows({0.4f, 0.6f, 0, 1})};
  EXPECT_THAT(CompareOutputs(expected, swapped, tolerance).difference,
              HasSubstr("output 0: of 0.5 of the rows the largest element is "
                        "the same, less than of 0.75"));
}

TEST(RelativeErrorTest, IsTheWorstOutputs) {
  const Tensor expected[] = {Floats({1, 1}), Floats({10, 10})};
  const Tensor actual[] = {Floats({1, 1}), Floats({11, 11})};
  EXPECT_NEAR(RelativeError(expected, actual), 0.1, 1e-6);
  EXPECT_EQ(RelativeError(expected, expected), 0);
  EXPECT_TRUE(std::isinf(RelativeError(expected, {actual, 1})));
}

TEST(CompareOutputsTest, Fp64IsComparedMoreFinely) {
  const Tensor expected[] = {Doubles({1, 2})};
  const Tensor rounded[] = {Doubles({1 + 1e-5, 2})};
  const Tensor close[] = {Doubles({1 + 1e-8, 2})};
  EXPECT_FALSE(CompareOutputs(expected, rounded, {}).equal);
  EXPECT_TRUE(CompareOutputs(expected, close, {}).equal);
}

TEST(CompareOutputsTest, OnlyRoundingIsArguable) {
  const Tensor one[] = {Floats({1, 1})};
  const Tensor other[] = {Floats({1, 1.1f})};
  const Tensor nan[] = {Floats({1, kNan})};
  EXPECT_TRUE(CompareOutputs(one, other, {}).arguable);
  EXPECT_FALSE(CompareOutputs(one, nan, {}).arguable);
  EXPECT_FALSE(CompareOutputs(one, one, {}).arguable);
  const Tensor both[] = {Floats({1, 1}),
                         MakeTensor<int64_t>(DataType::kInt64, {1}, {1})};
  const Tensor changed[] = {Floats({1, 1.1f}),
                            MakeTensor<int64_t>(DataType::kInt64, {1}, {2})};
  EXPECT_FALSE(CompareOutputs(both, changed, {}).arguable);
  const Tensor reversed[] = {both[1], both[0]};
  const Tensor reversed_changed[] = {changed[1], changed[0]};
  EXPECT_FALSE(CompareOutputs(reversed, reversed_changed, {}).arguable);
}

TEST(CompareOutputsTest, SaysHowManyRowsHaveTheSameLargestElement) {
  const Tensor expected[] = {
      MakeTensor<float>(DataType::kFp32, {2, 2}, {1, 2, 3, 3.00001f})};
  const Tensor actual[] = {
      MakeTensor<float>(DataType::kFp32, {2, 2}, {1, 2, 3, 2.99999f})};
  const Comparison result = CompareOutputs(expected, actual, {});
  EXPECT_TRUE(result.equal) << result.difference;
  EXPECT_EQ(result.argmax_agreement, 0.5);
  const Tensor vector[] = {Floats({1, 2})};
  EXPECT_EQ(CompareOutputs(vector, vector, {}).argmax_agreement, std::nullopt);
}

TEST(CompareOutputsTest, NamesWhatIsCompared) {
  const Tensor one[] = {Floats({1})};
  const Tensor two[] = {Floats({2})};
  EXPECT_EQ(CompareOutputs(one, two, {}, {"as it is", "padded"}).difference,
            "output 0[0]: as it is 1, padded 2 (1 of 1 elements differ)");
}

TEST(CompareWithReferenceTest, TakesTheOutputThatIsWorstInProportion) {
  const Tensor reference[] = {Doubles({0, 0}), Doubles({1, 1})};
  const Tensor eager[] = {Floats({0.3f, 0.4f}), Floats({1.5f, 0.5f})};
  const Tensor compiled[] = {Floats({0.3f, 0.4f}), Floats({2, 2})};
  const auto errors = CompareWithReference(reference, eager, compiled);
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_NEAR(errors->eager, 0.5, 1e-6);
  EXPECT_NEAR(errors->compiled, 1, 1e-6);
  EXPECT_TRUE(errors->acceptable());
  const Tensor worse[] = {Floats({0.3f, 0.4f}), Floats({2, 2.1f})};
  EXPECT_FALSE(CompareWithReference(reference, eager, worse)->acceptable());
}

TEST(CompareWithReferenceTest, WhereEagerIsExactNothingElseWillDo) {
  const Tensor reference[] = {Doubles({1})};
  const Tensor exact[] = {Floats({1})};
  const Tensor off[] = {Floats({1.01f})};
  EXPECT_FALSE(CompareWithReference(reference, exact, off)->acceptable());
  EXPECT_TRUE(CompareWithReference(reference, exact, exact)->acceptable());
}

// A mean over many elements hides one that is wrong.
TEST(CompareWithReferenceTest, OneElementMayNotBeFarFromTheReference) {
  constexpr size_t kElements = 10'000;
  const std::vector<double> exact(kElements, 1);
  std::vector<float> rounded(kElements);
  for (size_t i = 0; i < kElements; ++i) {
    rounded[i] = 1 + (i % 2 == 0 ? 1e-4F : -1e-4F);
  }
  const Tensor reference[] = {Doubles(exact)};
  const Tensor eager[] = {Floats(rounded)};
  for (const auto& [error, acceptable] : {std::pair(1e-4F, true),
                                          {3e-4F, true},
                                          {5e-4F, false},
                                          {1e-2F, false}}) {
    std::vector<float> answer = rounded;
    answer[kElements / 3] = 1 + error;
    const Tensor compiled[] = {Floats(answer)};
    const auto errors = CompareWithReference(reference, eager, compiled);
    ASSERT_TRUE(errors.ok()) << errors.status();
    EXPECT_LE(errors->compiled, 2 * errors->eager);
    EXPECT_EQ(errors->acceptable(), acceptable) << error;
  }
}

TEST(CompareWithReferenceTest, RefusesAnotherProgramsOutputs) {
  const Tensor one[] = {Floats({1, 2})};
  const Tensor shorter[] = {Doubles({1})};
  EXPECT_EQ(CompareWithReference({}, one, one).status().message(),
            "the float64 run has 0 outputs, expected 1");
  EXPECT_EQ(CompareWithReference(shorter, one, one).status().message(),
            "output 0 of the float64 run is FP64 [1], expected FP64 [2]");
  EXPECT_FALSE(CompareWithReference(one, one, one).ok());
}

class RunParityCaseTest : public ::testing::Test {
 protected:
  using Script =
      std::function<absl::StatusOr<RunResult>(absl::Span<const Tensor>)>;

  static Script Scaled(float factor) {
    return [factor](absl::Span<const Tensor> inputs) {
      const auto* values = reinterpret_cast<const float*>(inputs[0].data);
      std::vector<float> scaled(values, values + 4);
      for (float& value : scaled) value *= factor;
      return RunResult{{Floats(scaled)}, {}};
    };
  }

  absl::StatusOr<ParityRun> Run(const Script& eager, const Script& compiled) {
    return RunParityCase(inputs_, eager, compiled, {});
  }

  const std::vector<Tensor> inputs_ = {Floats({1, 2, 3, 4})};
};

TEST_F(RunParityCaseTest, KeepsBothAnswers) {
  const auto run = Run(Scaled(1), Scaled(2));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_FALSE(run->comparison.equal);
  EXPECT_EQ(reinterpret_cast<const float*>(run->eager[0].data)[1], 2);
  EXPECT_EQ(reinterpret_cast<const float*>(run->compiled[0].data)[1], 4);
}

TEST_F(RunParityCaseTest, EqualAnswers) {
  const auto run = Run(Scaled(1), Scaled(1 + 1e-5f));
  ASSERT_TRUE(run.ok());
  EXPECT_TRUE(run->comparison.equal) << run->comparison.difference;
  EXPECT_GT(run->comparison.max_abs_error, 0);
}

TEST_F(RunParityCaseTest, ARowThatOnlyTheCandidateRefusesIsADifference) {
  const auto run = Run(Scaled(1), [](absl::Span<const Tensor> inputs) {
    RunResult result = *Scaled(1)(inputs);
    result.faults.push_back({2, "ids: index out of range"});
    return result;
  });
  ASSERT_TRUE(run.ok());
  EXPECT_FALSE(run->comparison.equal);
  EXPECT_FALSE(run->comparison.arguable);
  EXPECT_EQ(run->comparison.difference,
            "compiled refused row 2, which eager answered: ids: index out of "
            "range");
}

TEST_F(RunParityCaseTest, ACandidateThatWritesIntoItsInputsIsRefused) {
  const auto run = Run(Scaled(1), [](absl::Span<const Tensor> inputs) {
    RunResult result = *Scaled(1)(inputs);
    const_cast<std::byte*>(inputs[0].data)[0] ^= std::byte{1};
    return result;
  });
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->comparison.difference, "compiled wrote into its inputs");
}

TEST_F(RunParityCaseTest, AFailingRunIsAnErrorOfTheCheck) {
  const auto failing = [](const absl::Status& status) {
    return [status](absl::Span<const Tensor>) -> absl::StatusOr<RunResult> {
      return status;
    };
  };
  EXPECT_EQ(Run(Scaled(1), failing(absl::InternalError("no kernel"))).status(),
            absl::InternalError("no kernel"));
  EXPECT_EQ(
      Run(failing(absl::InvalidArgumentError("bad value")), Scaled(1)).status(),
      absl::InvalidArgumentError("bad value"));
}

}  // namespace
}  // namespace stoker
