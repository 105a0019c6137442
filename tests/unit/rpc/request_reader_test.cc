#include "rpc/request_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/rpc/codec_fixtures.h"

namespace stoker {
namespace {

using inference::ModelInferRequest;
using ::testing::ElementsAre;

ByteChain InOneSlice(const std::string& bytes) {
  return ByteChain::Copy(bytes);
}

TEST(RequestReader, UsualRequestsAreReadInPlace) {
  ModelInferRequest request = TextRequest(2, 3);
  request.set_model_version("3");
  request.add_outputs()->set_name("length");
  const ByteChain buffer = InOneSlice(request.SerializeAsString());
  RequestReader reader(buffer);
  reader.Scan();
  EXPECT_EQ(reader.bytes_to_parse(), 0u);
  EXPECT_EQ(reader.parsed_memory(), 0u);

  const RequestView& view = reader.view();
  EXPECT_EQ(view.model_name, "text");
  EXPECT_EQ(view.model_version, "3");
  EXPECT_EQ(view.id, "r1");
  ASSERT_EQ(view.inputs.size(), 3u);
  EXPECT_EQ(view.inputs[2].name, "scale");
  EXPECT_EQ(view.inputs[2].datatype, "FP32");
  EXPECT_THAT(view.inputs[2].shape, ElementsAre(2, 6, 3));
  ASSERT_EQ(view.outputs.size(), 1u);
  EXPECT_EQ(view.outputs[0].name, "length");
  ASSERT_EQ(view.raw_input_contents.size(), 3u);
  const RawContents& ids = view.raw_input_contents[0];
  EXPECT_EQ(ids.size, 48u);
  const std::byte* const begin = reader.bytes().Contiguous(0, 1);
  EXPECT_GT(ids.data, begin);
  EXPECT_LT(ids.data, begin + reader.bytes().size());
}

TEST(RequestReader, ParametersAloneAreLeftToParse) {
  ModelInferRequest request = TextRequest(2, 3);
  (*request.mutable_parameters())["timeout"].set_int64_param(7);
  (*request.mutable_inputs(1)->mutable_parameters())["a"].set_bool_param(true);
  const std::string bytes = request.SerializeAsString();
  RequestReader reader(InOneSlice(bytes));
  reader.Scan();
  EXPECT_GT(reader.bytes_to_parse(), 0u);
  EXPECT_LT(reader.bytes_to_parse(), 40u);
  EXPECT_EQ(reader.view().model_name, "text");
  EXPECT_EQ(reader.view().parameters, nullptr);
  ASSERT_TRUE(reader.Parse());
  ASSERT_NE(reader.view().parameters, nullptr);
  EXPECT_EQ(reader.view().parameters->at("timeout").int64_param(), 7);
  EXPECT_EQ(reader.view().inputs[0].parameters, nullptr);
  ASSERT_NE(reader.view().inputs[1].parameters, nullptr);
  EXPECT_TRUE(reader.view().inputs[1].parameters->at("a").bool_param());
}

TEST(RequestReader, TensorsAcrossSlicesAreLeftWhereTheyLie) {
  const std::string bytes = TextRequest(2, 3).SerializeAsString();
  const std::vector<std::string> pieces = {bytes.substr(0, 110),
                                           bytes.substr(110)};
  RequestReader reader(InSlices(pieces));
  reader.Scan();
  EXPECT_EQ(reader.bytes_to_parse(), 0u);
  const auto& raw = reader.view().raw_input_contents;
  ASSERT_EQ(raw.size(), 3u);
  EXPECT_EQ(raw[0].scattered, &reader.bytes());
  EXPECT_EQ(raw[0].data, nullptr);
  EXPECT_EQ(raw[0].size, 48u);
  EXPECT_EQ(raw[1].scattered, nullptr);
  EXPECT_NE(raw[1].data, nullptr);
}

TEST(RequestReader, UnusualMessagesAreParsedAsAWhole) {
  const std::string bytes = TextRequest(2, 3).SerializeAsString();
  // An unknown field, which clients of a later protocol may send.
  RequestReader reader(InOneSlice(bytes + std::string("\xA2\x06\x01x", 4)));
  reader.Scan();
  EXPECT_EQ(reader.bytes_to_parse(), bytes.size() + 4);
  ASSERT_TRUE(reader.Parse());
  EXPECT_EQ(reader.view().model_name, "text");
  EXPECT_EQ(reader.view().inputs.size(), 3u);
  EXPECT_EQ(reader.view().raw_input_contents[2].size, 144u);
}

TEST(RequestReader, BytesThatAreNoRequest) {
  const std::string good = TextRequest(2, 3).SerializeAsString();
  for (const std::string& bytes :
       {std::string("\xFF"), good.substr(0, good.size() - 1), good + '\x0C',
        good + '\0', std::string("\x0A\x01\xFF"),
        std::string("\x3A\xFF\xFF\xFF\xFF\x07")}) {
    EXPECT_EQ(Received(bytes), nullptr);
  }
  EXPECT_NE(Received(good), nullptr);
  EXPECT_NE(Received(std::string()), nullptr);
}

TEST(RequestReader, ManySmallFieldsAreParsedByGeneratedCode) {
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) bytes += std::string("\x2A\0", 2);
  RequestReader reader(InOneSlice(bytes));
  reader.Scan();
  EXPECT_EQ(reader.bytes_to_parse(), bytes.size());
  EXPECT_EQ(reader.view().inputs.size(), 0u);
  ASSERT_TRUE(reader.Parse());
  EXPECT_EQ(reader.view().inputs.size(), 100'000u);
  EXPECT_LE(reader.parsed_memory(), reader.parse_limit());
}

}  // namespace
}  // namespace stoker
