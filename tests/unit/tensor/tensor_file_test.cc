// Tensors survive the way through a file's bytes; other bytes are refused. That
// the format is the real one is tested with its Python library
// (tests/compiler/test_reference.py).
#include "tensor/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

std::string WithHeader(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string content(reinterpret_cast<const char*>(&length), 8);
  return content + header + data;
}

TEST(TensorFileTest, TensorsComeBack) {
  NamedTensors tensors;
  tensors["x"] = MakeTensor<float>(DataType::kFp32, {2, 2}, {1, 2, 3, 4});
  tensors["ids"] = MakeTensor<int64_t>(DataType::kInt64, {3}, {-1, 0, 7});
  // A number has no shape.
  tensors["flag"] = MakeTensor<uint8_t>(DataType::kBool, {1}, {1});
  tensors["flag"].shape.clear();
  tensors["none"] = MakeTensor<double>(DataType::kFp64, {0, 5}, {});
  const auto bytes = TensorFileBytes(tensors);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto read = ParseTensorFile(*bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor& same = read->at(name);
    EXPECT_EQ(same.dtype, tensor.dtype) << name;
    EXPECT_EQ(same.shape, tensor.shape) << name;
    ASSERT_EQ(same.byte_size, tensor.byte_size) << name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(same.data) % 64, 0u) << name;
    if (same.byte_size > 0) {
      EXPECT_EQ(std::memcmp(same.data, tensor.data, same.byte_size), 0) << name;
    }
  }
}

TEST(TensorFileTest, WhatTheFormatLacksIsRefused) {
  Tensor text;
  text.dtype = DataType::kBytes;
  NamedTensors tensors;
  tensors["t"] = text;
  EXPECT_THAT(TensorFileBytes(tensors).status().message(),
              HasSubstr("t: has no form"));
}

TEST(TensorFileTest, OtherBytesAreRefused) {
  const std::string four(4, 'x');
  for (
      const auto& [content, message] :
      std::vector<std::pair<std::string, std::string>>{
          {"", "cut short"},
          {std::string(8, '\xff'), "of 18446744073709551615 bytes"},
          {WithHeader("[]", ""), "JSON object"},
          {WithHeader("{", ""), "JSON object"},
          {WithHeader(R"({"a": 1})", ""), "a: expected an object"},
          {WithHeader(R"({"a": {"dtype": "F32"}})", ""), "a: expected dtype"},
          {WithHeader(
               R"({"a": {"dtype": "F8", "shape": [], "data_offsets": [0, 4]}})",
               four),
           "unknown dtype F8"},
          {WithHeader(
               R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})",
               four),
           "bytes 0 to 4 of 4 can't be [2]"},
          {WithHeader(
               R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
               four),
           "bytes 4 to 8 of 4"},
          {WithHeader(
               R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})",
               four),
           "bytes 4 to 0"},
          {WithHeader(
               R"({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})",
               four),
           "whole sizes"},
          {WithHeader(
               R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296, 4294967296], "data_offsets": [0, 4]}})",
               four),
           "bytes 0 to 4"}}) {
    const auto read = ParseTensorFile(content);
    ASSERT_FALSE(read.ok()) << content;
    EXPECT_THAT(read.status().message(), HasSubstr(message));
  }
}

TEST(TensorFileTest, AListKeepsItsOrder) {
  std::vector<Tensor> tensors;
  for (int64_t i = 0; i < 12; ++i) {
    tensors.push_back(MakeTensor<int64_t>(DataType::kInt64, {1}, {i}));
  }
  NamedTensors numbered = Numbered(tensors);
  const auto back = InOrder(numbered);
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_EQ(back->size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ((*back)[i].data, tensors[i].data) << i;
  }
  numbered.erase("3");
  EXPECT_EQ(InOrder(numbered).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace stoker
