#include "tensor/run_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;

std::vector<Tensor> Some() {
  return {MakeTensor<float>(DataType::kFp32, {2, 1}, {1.5F, -2}),
          MakeTensor<int64_t>(DataType::kInt64, {0}, {}),
          MakeTensor<int64_t>(DataType::kInt64, {}, {7})};
}

TEST(RunMessageTest, ARequestComesThrough) {
  const auto message = EncodeRequest(4, Some());
  ASSERT_TRUE(message.ok()) << message.status();
  const auto request = DecodeRequest(*message);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->threads, 4);
  ASSERT_EQ(request->inputs.size(), 3u);
  EXPECT_THAT(ValuesOf<float>(request->inputs[0]), ElementsAre(1.5F, -2));
  EXPECT_THAT(request->inputs[0].shape, ElementsAre(2, 1));
  EXPECT_THAT(request->inputs[1].shape, ElementsAre(0));
  EXPECT_THAT(ValuesOf<int64_t>(request->inputs[2]), ElementsAre(7));
}

TEST(RunMessageTest, WhatCanNotBeSentIsRefused) {
  Tensor text = MakeTensor<char>(DataType::kBytes, {1}, {'a'});
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeRequest(1, {text}).status()));
}

TEST(RunMessageTest, AReplyComesThrough) {
  const auto outputs = DecodeReply(EncodeReply(Some()));
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 3u);
  EXPECT_THAT(ValuesOf<float>((*outputs)[0]), ElementsAre(1.5F, -2));
}

TEST(RunMessageTest, SoDoesAnError) {
  for (const absl::Status& status :
       {absl::InvalidArgumentError("too large"), absl::AbortedError("gone"),
        absl::DataLossError("")}) {
    EXPECT_EQ(DecodeReply(EncodeReply(status)).status(), status);
  }
}

TEST(RunMessageTest, GarbageIsNoReply) {
  const std::string good = EncodeReply(Some());
  for (const std::string& message :
       {std::string(), std::string(1, '\0'), good.substr(0, good.size() - 1),
        good.substr(0, 12)}) {
    EXPECT_TRUE(absl::IsInternal(DecodeReply(message).status()));
  }
  EXPECT_FALSE(DecodeReply("\xff"
                           "what code is that")
                   .ok());
}

TEST(RunMessageTest, LengthsComeThrough) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{255},
                               uint64_t{1} << 40, ~uint64_t{0}}) {
    const std::string text = EncodeLength(bytes);
    EXPECT_EQ(text.size(), kPrefixBytes);
    EXPECT_EQ(DecodeLength(text), bytes);
  }
  EXPECT_EQ(DecodeLength(std::string("\1\2\0\0\0\0\0\0", 8)), 513u);
}

}  // namespace
}  // namespace stoker
