#include "loadtest/benchmarks/echo_answer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stoker::loadtest {
namespace {

using ::testing::ElementsAre;

EchoModel Model(const char* input, const char* output) {
  return {"null", *ParseEchoTensor(input), *ParseEchoTensor(output)};
}

inference::ModelInferRequest Request(int64_t rows, const std::string& bytes) {
  inference::ModelInferRequest request;
  request.set_model_name("null");
  request.set_id("42");
  (*request.mutable_parameters())["timeout"].set_int64_param(5);
  auto* input = request.add_inputs();
  input->set_name("x");
  input->set_datatype("FP32");
  input->add_shape(rows);
  input->add_shape(4);
  request.add_outputs()->set_name("y");
  request.add_raw_input_contents(bytes);
  return request;
}

// Cut into slices of `step` bytes, as a network might.
grpc::ByteBuffer Slices(const std::string& bytes, size_t step) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += step)
    slices.emplace_back(bytes.substr(at, step));
  return {slices.data(), slices.size()};
}

std::string Joined(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices)
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

TEST(EchoAnswerTest, BothFormsAnswerTheSame) {
  const EchoModel model = Model("x:FP32:-1,4", "y:FP32:-1,2");
  const auto request = Request(
      3, std::string("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL"));
  inference::ModelInferResponse parsed;
  ASSERT_TRUE(model.Answer(request, &parsed).ok());
  EXPECT_EQ(parsed.id(), "42");
  EXPECT_EQ(parsed.outputs(0).name(), "y");
  EXPECT_THAT(parsed.outputs(0).shape(), ElementsAre(3, 2));
  EXPECT_EQ(parsed.raw_output_contents(0), "0123456789abcdefghijklmn");
  for (const size_t step : {1, 7, 50, 1000}) {
    grpc::ByteBuffer answer;
    ASSERT_TRUE(
        model.Answer(Slices(request.SerializeAsString(), step), &answer).ok());
    inference::ModelInferResponse raw;
    ASSERT_TRUE(raw.ParseFromString(Joined(answer)));
    EXPECT_EQ(raw.SerializeAsString(), parsed.SerializeAsString());
  }
}

TEST(EchoAnswerTest, RefusesWhatIsNoSuchRequest) {
  const EchoModel model = Model("x:FP32:-1,4", "y:FP32:-1,4");
  const std::string row(16, 'x');
  std::vector<inference::ModelInferRequest> wrong = {
      Request(2, row), Request(1, "short"), Request(-1, row), Request(1, row)};
  wrong.back().clear_raw_input_contents();
  for (const auto& request : wrong) {
    inference::ModelInferResponse parsed;
    EXPECT_EQ(model.Answer(request, &parsed).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
    grpc::ByteBuffer raw;
    EXPECT_EQ(model.Answer(Slices(request.SerializeAsString(), 64), &raw)
                  .error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
}

TEST(EchoAnswerTest, SurvivesMessagesCutAnywhere) {
  const EchoModel model = Model("x:FP32:-1,4", "y:FP32:-1,4");
  const std::string whole =
      Request(1, std::string(16, 'x')).SerializeAsString();
  for (size_t length = 0; length < whole.size(); ++length) {
    grpc::ByteBuffer answer;
    EXPECT_FALSE(model.Answer(Slices(whole.substr(0, length), 5), &answer).ok())
        << length;
  }
}

TEST(EchoAnswerTest, DescribesItself) {
  const auto metadata = Model("x:FP32:-1,4", "y:INT8:-1").Metadata();
  EXPECT_THAT(metadata.inputs(0).shape(), ElementsAre(-1, 4));
  EXPECT_EQ(metadata.outputs(0).datatype(), "INT8");
}

TEST(EchoAnswerTest, SaysWhichTensorItExpected) {
  for (const char* text : {"", "x", "x:FP32", "x:FP7:-1,2", "x:BYTES:-1",
                           "x:FP32:4", "x:FP32:-1,0", "x:FP32:-1,-1"}) {
    EXPECT_FALSE(ParseEchoTensor(text).ok()) << text;
  }
}

}  // namespace
}  // namespace stoker::loadtest
