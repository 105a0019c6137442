// Which kinds of inputs are tried, in which order, and that what was accepted
// is what is tried next.
#include "models/made_up_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

ModelSpec TwoInputs() {
  ModelSpec spec;
  spec.name = "two";
  spec.dimensions = {{"batch", "s0", 1, 64, true}};
  spec.inputs.resize(2);
  spec.inputs[0].dtype = DataType::kInt64;
  spec.inputs[1].dtype = DataType::kFp32;
  for (InputSpec& input : spec.inputs) input.dims = {DimExpr::Dimension(0)};
  return spec;
}

// As a division would.
absl::Status RefuseZero(absl::Span<const Tensor> inputs) {
  const std::vector<int64_t> values = ValuesOf<int64_t>(inputs[0]);
  return std::count(values.begin(), values.end(), 0) == 0
             ? absl::OkStatus()
             : absl::InvalidArgumentError("ZeroDivisionError");
}

TEST(MadeUpInputsTest, TheUsualOnesComeFirst) {
  const ModelSpec spec = TwoInputs();
  const MadeUpInputs made_up(spec);
  int tried = 0;
  EXPECT_TRUE(made_up
                  .Try({64}, 1,
                       [&](absl::Span<const Tensor> inputs) {
                         ++tried;
                         EXPECT_EQ(inputs[0].shape, Shape({64}));
                         EXPECT_THAT(ValuesOf<int64_t>(inputs[0]),
                                     Each(::testing::AnyOf(0, 1)));
                         return absl::OkStatus();
                       })
                  .ok());
  EXPECT_EQ(tried, 1);
}

TEST(MadeUpInputsTest, WhatWasAcceptedIsTriedNext) {
  const ModelSpec spec = TwoInputs();
  const MadeUpInputs made_up(spec);
  int tried = 0;
  const auto run = [&](absl::Span<const Tensor> inputs) {
    ++tried;
    return RefuseZero(inputs);
  };
  EXPECT_TRUE(made_up.Try({64}, 1, run).ok());
  EXPECT_EQ(tried, 2);
  EXPECT_TRUE(made_up.Try({64}, 2, run).ok());
  EXPECT_EQ(tried, 3);
  EXPECT_TRUE(RefuseZero(made_up.Of({64}, 3)).ok());
}

TEST(MadeUpInputsTest, ErrorsOfOtherKindsAreNoRefusals) {
  const ModelSpec spec = TwoInputs();
  int tried = 0;
  const absl::Status ran =
      MadeUpInputs(spec).Try({8}, 1, [&](absl::Span<const Tensor>) {
        ++tried;
        return absl::InternalError("no kernel");
      });
  EXPECT_EQ(ran.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(tried, 1);
}

TEST(MadeUpInputsTest, WhatRefusesAllIsRefusedAsItWasFirst) {
  const ModelSpec spec = TwoInputs();
  const MadeUpInputs made_up(spec);
  std::vector<std::vector<float>> seen;
  const absl::Status ran =
      made_up.Try({4}, 1, [&](absl::Span<const Tensor> inputs) {
        seen.push_back(ValuesOf<float>(inputs[1]));
        return absl::InvalidArgumentError(std::to_string(seen.size()));
      });
  EXPECT_EQ(ran.message(), "1");
  EXPECT_TRUE(absl::IsInvalidArgument(ran));
  ASSERT_GT(seen.size(), 4u);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end())
      << "a kind was tried twice";
  // The next time it begins where it began.
  EXPECT_THAT(ValuesOf<float>(made_up.Of({4}, 1)[1]),
              ::testing::Not(ElementsAre(0, 0, 0, 0)));
}

TEST(MadeUpInputsTest, ADeclaredRangeHoldsForEveryKind) {
  ModelSpec spec = TwoInputs();
  spec.inputs[0].range = {5, 9};
  const MadeUpInputs made_up(spec);
  made_up
      .Try({32}, 1,
           [&](absl::Span<const Tensor> inputs) {
             EXPECT_THAT(
                 ValuesOf<int64_t>(inputs[0]),
                 Each(::testing::AllOf(::testing::Ge(5), ::testing::Le(9))));
             return absl::InvalidArgumentError("no");
           })
      .IgnoreError();
}

TEST(MadeUpInputsTest, IntegersOfNoKnownRangeMayBeWideApart) {
  ModelSpec spec = TwoInputs();
  const auto wide = MadeUpInputs(spec).WideIntegers({64}, 0);
  ASSERT_EQ(wide.size(), 2u);
  const std::vector<int64_t> values = ValuesOf<int64_t>(wide[0]);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*least, 0);
  EXPECT_GT(*most, 500);
  EXPECT_LE(*most, 1000);
  EXPECT_EQ(ValuesOf<float>(wide[1]),
            ValuesOf<float>(MadeUpInputs(spec).Of({64}, 0)[1]));

  spec.inputs[0].range = {0, 9};  // a table of ten rows
  EXPECT_TRUE(MadeUpInputs(spec).WideIntegers({64}, 0).empty());
}

TEST(MadeUpInputsTest, OtherIntegersAreOthersEachOfThem) {
  ModelSpec spec;
  spec.dimensions = {{"n", "s0", 1, 100, true}};
  for (const DataType dtype :
       {DataType::kInt64, DataType::kBool, DataType::kUint8, DataType::kFp32}) {
    InputSpec& input = spec.inputs.emplace_back();
    input.dtype = dtype;
    input.dims = {DimExpr::Dimension(0)};
    if (dtype == DataType::kUint8) input.range = {3, 250};
  }
  const MadeUpInputs made_up(spec);
  const auto usual = made_up.Of({64}, 5);
  const auto others = made_up.OtherIntegers({64}, 5);
  ASSERT_EQ(others.size(), 4u);
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_NE(ValuesOf<int64_t>(usual[0])[i], ValuesOf<int64_t>(others[0])[i]);
    EXPECT_NE(ValuesOf<uint8_t>(usual[1])[i], ValuesOf<uint8_t>(others[1])[i]);
    EXPECT_NE(ValuesOf<uint8_t>(usual[2])[i], ValuesOf<uint8_t>(others[2])[i]);
    EXPECT_GE(ValuesOf<uint8_t>(others[2])[i], 3);
    EXPECT_LE(ValuesOf<uint8_t>(others[2])[i], 250);
  }
  EXPECT_EQ(ValuesOf<float>(usual[3]), ValuesOf<float>(others[3]));
  spec.inputs = {spec.inputs[3]};
  EXPECT_TRUE(MadeUpInputs(spec).OtherIntegers({64}, 5).empty());
}

}  // namespace
}  // namespace stoker
