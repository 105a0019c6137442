#include "rpc/client_outputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/rpc/codec_fixtures.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;

// A tensor of TextModel's `embedding`.
Tensor Embedding(int64_t rows) {
  const Buffer buffer(static_cast<size_t>(rows) * 4 * sizeof(float));
  std::memset(buffer.data(), 0, buffer.size());
  return {
      DataType::kFp32, {rows, 4}, buffer.data(), buffer.size(), buffer.share()};
}

TEST(ToClients, ShapesChangeAndElementsStay) {
  ModelSpec spec = TextModel();
  spec.outputs[0].reshape = {{-1, 2, 2}, {-1, 4}};
  std::vector<Tensor> outputs = {Embedding(3), Embedding(3)};
  const std::byte* const data = outputs[0].data;
  ASSERT_TRUE(ToClients(spec, {0, 1}, {}, absl::MakeSpan(outputs)).ok());
  EXPECT_THAT(outputs[0].shape, ElementsAre(3, 2, 2));
  EXPECT_EQ(outputs[0].data, data);
  EXPECT_THAT(outputs[1].shape, ElementsAre(3, 4));
}

TEST(ToClients, ClassesHaveTheirOwnShape) {
  ModelSpec spec = TextModel();
  spec.outputs[0].reshape = {{-1, 2, 2}, {-1, 4}};
  std::vector<Tensor> outputs = {Embedding(3), Tensor()};
  ASSERT_TRUE(ToClients(spec, {0}, {2}, absl::MakeSpan(outputs)).ok());
  EXPECT_EQ(outputs[0].dtype, DataType::kBytes);
  EXPECT_THAT(outputs[0].shape, ElementsAre(3, 2));
}

TEST(ToClients, AShapeThatNobodyProvidedForIsSaid) {
  ModelSpec spec = TextModel();
  spec.outputs[0].reshape = {{-1, 2, 3}, {-1, 6}};
  std::vector<Tensor> outputs = {Embedding(3)};
  const absl::Status status = ToClients(spec, {0}, {}, absl::MakeSpan(outputs));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "output 'embedding' for model 'text' is [3,4] for this request, "
            "expected [-1,6], to be reshaped to [-1,2,3]");
}

}  // namespace
}  // namespace stoker
