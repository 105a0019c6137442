#include "rpc/response_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/fakes/tensors.h"
#include "tests/unit/rpc/codec_fixtures.h"

namespace stoker {
namespace {

using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;
using ::testing::ElementsAre;

std::string Joined(const ByteChain& chain) { return chain.Joined(); }

template <typename Message>
Message Parse(const ByteChain& buffer) {
  Message message;
  EXPECT_TRUE(message.ParseFromString(Joined(buffer)));
  return message;
}

std::vector<Tensor> TextOutputs() {
  return {MakeTensor<float>(DataType::kFp32, {1, 4}, {1, 2, 3, 4}),
          MakeTensor<int64_t>(DataType::kInt64, {1}, {9})};
}

absl::StatusOr<ByteChain> Encode(const ModelSpec& spec, std::string_view id,
                                 absl::Span<const int> outputs,
                                 absl::Span<const Tensor> tensors,
                                 AnswerForm form) {
  ByteChain message;
  const absl::Status status =
      EncodeResponse(spec, id, outputs, tensors, form, message);
  if (!status.ok()) return status;
  return message;
}

TEST(EncodeResponse, EchoesAndKeepsTheOrderAskedFor) {
  const std::vector<Tensor> tensors = TextOutputs();
  const absl::StatusOr<ByteChain> bytes =
      Encode(TextModel(), "id-7", {1, 0}, tensors, AnswerForm::kUnary);
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
      *Encode(TextModel(), "", {0, 1}, tensors, AnswerForm::kUnary));
  EXPECT_THAT(response.raw_output_contents(), ElementsAre("", ""));
}

TEST(EncodeResponse, StreamAnswersAreWrapped) {
  const auto response = Parse<ModelStreamInferResponse>(
      *Encode(TextModel(), "s", {0}, TextOutputs(), AnswerForm::kStream));
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
    const absl::StatusOr<ByteChain> bytes =
        Encode(TextModel(), "big", {0, 1}, tensors, AnswerForm::kUnary);
    ASSERT_TRUE(bytes.ok());
    tensors.clear();
    EXPECT_FALSE(owner.expired());
    const ByteChain::Slices& slices = bytes->slices();
    ASSERT_EQ(slices.size(), 3u);
    EXPECT_EQ(slices[1].data, data);
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
  EXPECT_EQ(
      Encode(TextModel(), "", {0}, tensors, AnswerForm::kUnary).status().code(),
      absl::StatusCode::kInvalidArgument);
}

TEST(EncodeStreamError, CarriesTextAndId) {
  const auto response = Parse<ModelStreamInferResponse>(
      EncodeStreamError(absl::InvalidArgumentError("no\xFFgood"), "17"));
  EXPECT_EQ(response.error_message(), "no?good");
  EXPECT_EQ(response.infer_response().id(), "17");
}

// Byte for byte what generated code writes.
TEST(EncodeResponse, EqualsGeneratedCode) {
  std::mt19937 random(1);
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  for (int round = 0; round < 300; ++round) {
    ModelSpec spec;
    spec.name = std::string(below(200), 'm');
    spec.version = round % 3 == 0 ? INT64_MAX : round;
    const std::string id(below(300), 'i');
    std::vector<Tensor> tensors;
    std::vector<int> outputs;
    ModelInferResponse expected;
    expected.set_model_name(spec.name);
    expected.set_model_version(std::to_string(spec.version));
    expected.set_id(id);
    for (size_t i = below(4); i > 0; --i) {
      Shape shape;
      for (size_t rank = below(4); rank > 0; --rank) {
        shape.push_back(static_cast<int64_t>(below(3) == 0 ? 300 : below(4)));
      }
      const auto elements = static_cast<size_t>(*ElementCount(shape));
      if (elements > 100'000) continue;
      std::vector<uint8_t> values(elements);
      for (uint8_t& value : values) value = static_cast<uint8_t>(below(256));
      outputs.push_back(static_cast<int>(tensors.size()));
      tensors.push_back(MakeTensor(DataType::kUint8, shape, values));
      spec.outputs.push_back({std::string(1 + below(150), 'o'), {}, {}});
      auto* output = expected.add_outputs();
      output->set_name(spec.outputs.back().name);
      output->set_datatype("UINT8");
      output->mutable_shape()->Add(shape.begin(), shape.end());
      expected.add_raw_output_contents(Bytes(values));
    }
    const auto unary = Encode(spec, id, outputs, tensors, AnswerForm::kUnary);
    ASSERT_TRUE(unary.ok());
    EXPECT_EQ(Joined(*unary), expected.SerializeAsString());
    ModelStreamInferResponse wrapped;
    *wrapped.mutable_infer_response() = expected;
    (*wrapped.mutable_infer_response()
          ->mutable_parameters())["triton_final_response"]
        .set_bool_param(true);
    const auto stream = Encode(spec, id, outputs, tensors, AnswerForm::kStream);
    ASSERT_TRUE(stream.ok());
    EXPECT_EQ(Joined(*stream), wrapped.SerializeAsString());
  }
}

}  // namespace
}  // namespace stoker
