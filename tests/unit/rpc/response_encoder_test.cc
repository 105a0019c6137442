#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rpc/tensor_codec.h"
#include "tests/unit/rpc/codec_fixtures.h"

namespace stoker {
namespace {

using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;
using ::testing::ElementsAre;

template <typename Message>
Message Parse(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  Message message;
  EXPECT_TRUE(message.ParseFromString(bytes));
  return message;
}

template <typename T>
Tensor MakeTensor(DataType dtype, Shape shape, const std::vector<T>& values) {
  Buffer buffer(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(buffer.data(), values.data(), buffer.size());
  return {dtype, std::move(shape), buffer.data(), buffer.size(),
          buffer.share()};
}

std::vector<Tensor> TextOutputs() {
  return {MakeTensor<float>(DataType::kFp32, {1, 4}, {1, 2, 3, 4}),
          MakeTensor<int64_t>(DataType::kInt64, {1}, {9})};
}

TEST(EncodeResponse, EchoesAndKeepsTheOrderAskedFor) {
  const std::vector<Tensor> tensors = TextOutputs();
  const absl::StatusOr<grpc::ByteBuffer> bytes =
      EncodeResponse(TextModel(), "id-7", {1, 0}, tensors, AnswerForm::kUnary);
  ASSERT_TRUE(bytes.ok());
  const auto response = Parse<ModelInferResponse>(*bytes);
  EXPECT_EQ(response.id(), "id-7");
  EXPECT_EQ(response.model_name(), "text");
  EXPECT_EQ(response.model_version(), "3");
  ASSERT_EQ(response.outputs_size(), 2);
  EXPECT_EQ(response.outputs(0).name(), "length");
  EXPECT_EQ(response.outputs(0).datatype(), "INT64");
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(1));
  EXPECT_FALSE(response.outputs(0).has_contents());
  EXPECT_EQ(response.outputs(1).name(), "embedding");
  EXPECT_THAT(response.outputs(1).shape(), ElementsAre(1, 4));
  EXPECT_THAT(response.raw_output_contents(),
              ElementsAre(Bytes<int64_t>({9}), Bytes<float>({1, 2, 3, 4})));
  EXPECT_TRUE(response.parameters().empty());
}

TEST(EncodeResponse, EveryOutputHasARawEntry) {
  const std::vector<Tensor> tensors = {
      MakeTensor<float>(DataType::kFp32, {0, 4}, {}),
      MakeTensor<int64_t>(DataType::kInt64, {0}, {})};
  const auto response = Parse<ModelInferResponse>(
      *EncodeResponse(TextModel(), "", {0, 1}, tensors, AnswerForm::kUnary));
  EXPECT_THAT(response.raw_output_contents(), ElementsAre("", ""));
}

TEST(EncodeResponse, StreamAnswersAreWrapped) {
  const auto response = Parse<ModelStreamInferResponse>(*EncodeResponse(
      TextModel(), "s", {0}, TextOutputs(), AnswerForm::kStream));
  EXPECT_EQ(response.error_message(), "");
  EXPECT_EQ(response.infer_response().id(), "s");
  EXPECT_THAT(response.infer_response().raw_output_contents(),
              ElementsAre(Bytes<float>({1, 2, 3, 4})));
}

TEST(EncodeResponse, LargeTensorsAreSharedNotCopied) {
  std::vector<float> values(100000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::vector<Tensor> tensors = {
      MakeTensor<float>(DataType::kFp32, {100000}, values),
      MakeTensor<int64_t>(DataType::kInt64, {1}, {5})};
  const std::weak_ptr<const void> owner = tensors[0].owner;
  const std::byte* data = tensors[0].data;
  {
    const absl::StatusOr<grpc::ByteBuffer> bytes =
        EncodeResponse(TextModel(), "big", {0, 1}, tensors, AnswerForm::kUnary);
    ASSERT_TRUE(bytes.ok());
    tensors.clear();
    EXPECT_FALSE(owner.expired());
    std::vector<grpc::Slice> slices;
    ASSERT_TRUE(bytes->Dump(&slices).ok());
    ASSERT_EQ(slices.size(), 3u);
    EXPECT_EQ(reinterpret_cast<const std::byte*>(slices[1].begin()), data);
    const auto response = Parse<ModelInferResponse>(*bytes);
    EXPECT_THAT(response.raw_output_contents(),
                ElementsAre(Bytes(values), Bytes<int64_t>({5})));
  }
  EXPECT_TRUE(owner.expired());
}

TEST(EncodeResponse, MessagesBeyondTwoGibibytesAreRefused) {
  // The size is refused before a byte of the tensor is looked at.
  std::vector<Tensor> tensors = TextOutputs();
  tensors[0].byte_size = size_t{1} << 31;
  EXPECT_EQ(EncodeResponse(TextModel(), "", {0}, tensors, AnswerForm::kUnary)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(EncodeStreamError, CarriesTextAndId) {
  const auto response = Parse<ModelStreamInferResponse>(
      EncodeStreamError(absl::InvalidArgumentError("no\xFFgood"), "17"));
  EXPECT_EQ(response.error_message(), "no?good");
  EXPECT_EQ(response.infer_response().id(), "17");
}

}  // namespace
}  // namespace stoker
