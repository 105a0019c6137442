#include "rpc/classification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/rpc/codec_fixtures.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// scores [batch, n] of the dtype; without a batch dimension unless `batched`.
ModelSpec Scores(DataType dtype, bool batched) {
  ModelSpec spec;
  spec.name = "scores";
  spec.dimensions = {{"batch", "s0", 1, 64, true}};
  spec.outputs = {
      {"scores", dtype, {DimExpr::Dimension(0), DimExpr::Constant(4)}}};
  if (batched) {
    spec.batch_dimension = 0;
    spec.max_batch_size = 8;
  }
  return spec;
}

template <typename T>
Tensor Of(DataType dtype, Shape shape, const std::vector<T>& values) {
  Buffer buffer(values.size() * sizeof(T));
  std::memcpy(buffer.data(), values.data(), buffer.size());
  return {dtype, std::move(shape), buffer.data(), buffer.size(),
          buffer.share()};
}

std::vector<std::string> Texts(const Tensor& tensor) {
  std::vector<std::string> texts;
  for (size_t at = 0; at < tensor.byte_size;) {
    uint32_t size = 0;
    std::memcpy(&size, tensor.data + at, sizeof(size));
    at += sizeof(size);
    texts.emplace_back(reinterpret_cast<const char*>(tensor.data + at), size);
    at += size;
  }
  return texts;
}

TEST(Classify, TheLargestOfEachRow) {
  const auto classes = Classify(
      Scores(DataType::kFp32, true), 0,
      Of<float>(DataType::kFp32, {2, 4}, {0.1F, 0.7F, -1, 0.2F, 5, 3, 4, 6}),
      2);
  ASSERT_TRUE(classes.ok()) << classes.status();
  EXPECT_EQ(classes->dtype, DataType::kBytes);
  EXPECT_THAT(classes->shape, ElementsAre(2, 2));
  EXPECT_THAT(Texts(*classes), ElementsAre("0.700000:1", "0.200000:3",
                                           "6.000000:3", "5.000000:0"));
}

TEST(Classify, TheLargestOfAllWithoutABatch) {
  const auto classes = Classify(
      Scores(DataType::kInt32, false), 0,
      Of<int32_t>(DataType::kInt32, {2, 4}, {1, 7, -1, 2, 5, 3, 4, 6}), 3);
  ASSERT_TRUE(classes.ok()) << classes.status();
  EXPECT_THAT(classes->shape, ElementsAre(3));
  EXPECT_THAT(Texts(*classes), ElementsAre("7:1", "6:7", "5:4"));
}

TEST(Classify, LabelsAsFarAsThereAre) {
  ModelSpec spec = Scores(DataType::kInt64, true);
  spec.labels = std::make_shared<const std::vector<std::string>>(
      std::vector<std::string>{"cat", "dog: large"});
  const auto classes = Classify(
      spec, 0, Of<int64_t>(DataType::kInt64, {1, 4}, {1, 9, 5, 0}), 100);
  ASSERT_TRUE(classes.ok()) << classes.status();
  EXPECT_THAT(classes->shape, ElementsAre(1, 4));
  EXPECT_THAT(Texts(*classes),
              ElementsAre("9:1:dog: large", "5:2", "1:0:cat", "0:3"));
}

TEST(Classify, EqualElementsAndNoNumbers) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto classes = Classify(
      Scores(DataType::kFp32, true), 0,
      Of<float>(DataType::kFp32, {1, 6}, {kNan, 1, kNan, 1, -kInf, kInf}), 6);
  ASSERT_TRUE(classes.ok()) << classes.status();
  EXPECT_THAT(Texts(*classes), ElementsAre("inf:5", "1.000000:1", "1.000000:3",
                                           "-inf:4", "nan:0", "nan:2"));
}

TEST(Classify, EveryTypeThatHasAnOrder) {
  const auto first = [](DataType dtype, const auto& values) {
    const auto classes =
        Classify(Scores(dtype, true), 0, Of(dtype, {1, 2}, values), 1);
    return classes.ok() ? Texts(*classes)[0]
                        : std::string(classes.status().message());
  };
  EXPECT_EQ(first(DataType::kUint8, std::vector<uint8_t>{1, 255}), "255:1");
  EXPECT_EQ(first(DataType::kUint16, std::vector<uint16_t>{65535, 1}),
            "65535:0");
  EXPECT_EQ(first(DataType::kUint32, std::vector<uint32_t>{1, 7}), "7:1");
  EXPECT_EQ(first(DataType::kUint64, std::vector<uint64_t>{UINT64_MAX, 1}),
            "18446744073709551615:0");
  EXPECT_EQ(first(DataType::kInt8, std::vector<int8_t>{-1, -128}), "-1:0");
  EXPECT_EQ(first(DataType::kInt16, std::vector<int16_t>{-1, 5}), "5:1");
  EXPECT_EQ(first(DataType::kFp64, std::vector<double>{0.5, 0.25}),
            "0.500000:0");
  EXPECT_THAT(first(DataType::kBool, std::vector<uint8_t>{1, 0}),
              HasSubstr("class result not available for output 'scores' of "
                        "model 'scores' due to unsupported type 'BOOL'"));
  EXPECT_FALSE(CheckClassified(Scores(DataType::kBf16, true), 0).ok());
}

TEST(Classify, Empty) {
  const auto no_rows = Classify(Scores(DataType::kFp32, true), 0,
                                Of<float>(DataType::kFp32, {0, 4}, {}), 3);
  ASSERT_TRUE(no_rows.ok());
  EXPECT_THAT(no_rows->shape, ElementsAre(0, 0));
  EXPECT_EQ(no_rows->byte_size, 0u);
  const auto no_elements = Classify(Scores(DataType::kFp32, true), 0,
                                    Of<float>(DataType::kFp32, {2, 0}, {}), 3);
  ASSERT_TRUE(no_elements.ok());
  EXPECT_THAT(no_elements->shape, ElementsAre(2, 0));
}

// Rows of a batch's memory begin anywhere.
TEST(Classify, AnyAlignment) {
  std::string bytes = "x" + Bytes(std::vector<double>{1, 3, 2});
  const Tensor tensor{DataType::kFp64,
                      {1, 3},
                      reinterpret_cast<const std::byte*>(bytes.data()) + 1,
                      24,
                      nullptr};
  EXPECT_THAT(Texts(*Classify(Scores(DataType::kFp64, true), 0, tensor, 1)),
              ElementsAre("3.000000:1"));
}

}  // namespace
}  // namespace stoker
