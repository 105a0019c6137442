#include "rpc/bytes_elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rpc/tensor_codec.h"
#include "tests/unit/rpc/codec_fixtures.h"
#include "tests/unit/rpc/letters_model.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<BytesElements> Read(const std::string& bytes,
                                   const Shape& shape) {
  const RawContents raw{
      .size = bytes.size(),
      .data = reinterpret_cast<const std::byte*>(bytes.data())};
  return BytesElements::Read({"text", "m", DataType::kBytes, shape}, &raw,
                             nullptr, nullptr);
}

std::string Text(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data), tensor.byte_size};
}

TEST(BytesElements, RowsAreFilledUp) {
  const std::string bytes = Elements({"ab", "", "abcd"});
  const auto elements = Read(bytes, {3, 1});
  ASSERT_TRUE(elements.ok()) << elements.status();
  EXPECT_EQ(elements->longest(), 4u);
  EXPECT_EQ(elements->longest_index(), 2u);
  const auto rows =
      elements->Rows({"text", "m", DataType::kUint8, {3, 5}}, std::byte{'.'});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(Text(*rows), "ab........abcd.");
  EXPECT_THAT(rows->shape, ElementsAre(3, 5));
}

TEST(BytesElements, FromTypedContents) {
  inference::InferTensorContents contents;
  contents.add_bytes_contents("ab");
  contents.add_bytes_contents("c");
  const TensorForm form{"text", "m", DataType::kBytes, {2}};
  const auto elements = BytesElements::Read(form, nullptr, nullptr, &contents);
  ASSERT_TRUE(elements.ok()) << elements.status();
  EXPECT_EQ(Text(*elements->Rows({"text", "m", DataType::kUint8, {2, 2}},
                                 std::byte{0})),
            std::string("abc\0", 4));
  contents.add_fp32_contents(1);
  EXPECT_FALSE(BytesElements::Read(form, nullptr, nullptr, &contents).ok());
}

TEST(BytesElements, WhatIsNoneIsSaid) {
  const auto message = [](const std::string& bytes, const Shape& shape) {
    return std::string(Read(bytes, shape).status().message());
  };
  EXPECT_EQ(message(Elements({"a", "b"}), {3}),
            "input 'text' for model 'm': expected 3 string elements by its "
            "shape [3], got 2");
  EXPECT_THAT(message(Elements({"a", "b"}), {1}), HasSubstr("got more"));
  EXPECT_THAT(message(Elements({"a"}), {0}), HasSubstr("got more"));
  EXPECT_EQ(message("", {0}), "");
  EXPECT_THAT(message(Elements({"a"}) + "xyz", {2}),
              HasSubstr("string element 1 is cut off: expected its length, of "
                        "four bytes"));
  EXPECT_THAT(message(std::string("\xff\xff\xff\xff", 4) + "a", {1}),
              HasSubstr("string element 0 is cut off"));
  EXPECT_THAT(message("", {-1}), HasSubstr("is none that a tensor can have"));
  EXPECT_THAT(message("", {INT64_MAX, 4}), HasSubstr("none that a tensor"));
}

TEST(BytesElements, TooManyBytesForMemory) {
  const std::string bytes = Elements({"", "", "", ""});
  const auto elements = Read(bytes, {4});
  ASSERT_TRUE(elements.ok());
  const TensorForm form{"text", "m", DataType::kUint8, {4, int64_t{1} << 62}};
  EXPECT_THAT(
      std::string(elements->Rows(form, std::byte{0}).status().message()),
      HasSubstr("more elements than memory can hold"));
}

TEST(RowsToBytes, ZeroBytesAtTheEndAreCutOff) {
  const std::string rows("ab\0\0\0\0\0\0a\0b\0", 12);
  const Tensor tensor{DataType::kUint8,
                      {3, 1, 4},
                      reinterpret_cast<const std::byte*>(rows.data()),
                      rows.size(),
                      nullptr};
  const Tensor bytes = RowsToBytes(tensor);
  EXPECT_EQ(bytes.dtype, DataType::kBytes);
  EXPECT_THAT(bytes.shape, ElementsAre(3, 1));
  EXPECT_EQ(Text(bytes), Elements({"ab", "", std::string("a\0b", 3)}));
  const Tensor empty{DataType::kUint8, {2, 0}, nullptr, 0, nullptr};
  EXPECT_EQ(Text(RowsToBytes(empty)), Elements({"", ""}));
}

absl::StatusOr<DecodedRequest> Decode(
    const inference::ModelInferRequest& request,
    const ModelSpec& spec = Letters()) {
  const auto received = Received(request);
  return DecodeRequest(received->view(), spec, nullptr, received, AdmitAll);
}

TEST(DecodeRequest, RowsAreAsLongAsTheLongestElement) {
  const auto decoded =
      Decode(LettersRequest({"a", "bc"}, {"def", ""}, {"g", "hijk"}));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->inputs[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(Text(decoded->inputs[0]), std::string("a\0\0bc\0", 6));
  EXPECT_EQ(Text(decoded->inputs[1]), "def...");
  EXPECT_THAT(decoded->inputs[2].shape, ElementsAre(2, 4));
  EXPECT_EQ(Text(decoded->inputs[2]), std::string("g\0\0\0hijk", 8));
  EXPECT_THAT(decoded->sizes, ElementsAre(2, 3));
  // No shorter than the program takes.
  EXPECT_THAT(Decode(LettersRequest({""}, {""}, {""}))->inputs[0].shape,
              ElementsAre(1, 2));
}

TEST(DecodeRequest, OtherInputsSayHowLongRowsAre) {
  ModelSpec spec = Letters();
  spec.inputs[1].is_bytes = false;
  spec.inputs[1].dtype = DataType::kUint8;
  inference::ModelInferRequest request = LettersRequest({"ab"}, {}, {""});
  request.mutable_inputs(1)->set_datatype("UINT8");
  request.mutable_inputs(1)->clear_shape();
  request.mutable_inputs(1)->add_shape(1);
  request.mutable_inputs(1)->add_shape(5);
  request.set_raw_input_contents(1, "12345");
  EXPECT_THAT(Decode(request, spec)->inputs[0].shape, ElementsAre(1, 5));
  request.set_raw_input_contents(0, Elements({"abcdef"}));
  EXPECT_EQ(Decode(request, spec).status().message(),
            "input 'text' for model 'letters': string element 0 has 6 bytes, "
            "expected at most 5");
}

TEST(DecodeRequest, ElementsThatAreTooLong) {
  EXPECT_EQ(Decode(LettersRequest({"", ""}, {"", ""}, {"", "abcde"}))
                .status()
                .message(),
            "input 'code' for model 'letters': string element 1 has 5 bytes, "
            "expected at most 4");
  EXPECT_EQ(Decode(LettersRequest({std::string(65, 'x')}, {""}, {""}))
                .status()
                .message(),
            "input 'text' for model 'letters': string element 0 has 65 bytes, "
            "expected at most 64");
  auto request = LettersRequest({"a"}, {"b"}, {"c"});
  request.mutable_inputs(2)->mutable_shape()->RemoveLast();
  EXPECT_THAT(std::string(Decode(request).status().message()),
              HasSubstr("Expected [-1,1], reshaped to [-1]"));
  request = LettersRequest({"a"}, {"b"}, {"c"});
  request.mutable_inputs(0)->add_shape(1);
  EXPECT_TRUE(Decode(request).ok()) << "a column is a row of one string each";
  request.mutable_inputs(0)->add_shape(1);
  EXPECT_THAT(std::string(Decode(request).status().message()),
              HasSubstr("Expected [-1], got [1,1,1]: expected 1 dimensions"));
  request.mutable_inputs(0)->set_datatype("UINT8");
  EXPECT_THAT(std::string(Decode(request).status().message()),
              HasSubstr("data-type is 'UINT8', but model 'letters' expects "
                        "'BYTES'"));
}

}  // namespace
}  // namespace stoker
