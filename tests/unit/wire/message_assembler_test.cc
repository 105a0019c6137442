#include "wire/message_assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/wire/compressed.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kMax = 1 << 20;

std::string Framed(const std::string& content, char flag = 0) {
  const auto size = static_cast<uint32_t>(content.size());
  return std::string{flag, static_cast<char>(size >> 24),
                     static_cast<char>(size >> 16),
                     static_cast<char>(size >> 8), static_cast<char>(size)} +
         content;
}

CallStatus Allow(size_t /*bytes*/) { return {}; }

TEST(MessageAssembler, AnyCutsGiveTheSameMessages) {
  const std::vector<std::string> messages = {"", "a", std::string(70'000, 'b'),
                                             "", std::string(300, 'c')};
  std::string all;
  for (const std::string& message : messages) all += Framed(message);
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    MessageAssembler assembler(kMax);
    std::vector<std::string> got;
    const auto take = [&] {
      while (assembler.has_message()) {
        got.push_back(assembler.Take().Joined());
        ASSERT_TRUE(assembler.Resume(Allow).ok());
      }
    };
    for (size_t at = 0; at < all.size();) {
      const size_t size =
          std::min<size_t>(all.size() - at, 1 + random() % (round * 200 + 3));
      if (random() % 4 == 0) {
        assembler.Keep(std::string_view(all).substr(at, size));
      } else {
        ASSERT_TRUE(
            assembler.Add(std::string_view(all).substr(at, size), Allow).ok());
      }
      at += size;
      if (random() % 2 == 0) {
        ASSERT_TRUE(assembler.Resume(Allow).ok());
        take();
      }
    }
    ASSERT_TRUE(assembler.Resume(Allow).ok());
    take();
    EXPECT_EQ(got, messages);
    EXPECT_FALSE(assembler.begun());
    EXPECT_EQ(assembler.waiting(), 0u);
  }
}

TEST(MessageAssembler, MemoryIsReservedWhenTheLengthIsKnown) {
  MessageAssembler assembler(kMax);
  std::vector<size_t> reserved;
  const auto reserve = [&](size_t bytes) -> CallStatus {
    reserved.push_back(bytes);
    return {};
  };
  const std::string framed = Framed(std::string(1000, 'x'));
  ASSERT_TRUE(assembler.Add(framed.substr(0, 4), reserve).ok());
  EXPECT_THAT(reserved, ElementsAre());
  EXPECT_TRUE(assembler.begun());
  ASSERT_TRUE(assembler.Add(framed.substr(4, 10), reserve).ok());
  EXPECT_THAT(reserved, ElementsAre(1000));
  EXPECT_EQ(assembler.missing(), 991u);
  // Nobody waits for what is behind it.
  ASSERT_TRUE(assembler.Add(framed.substr(14) + framed, reserve).ok());
  EXPECT_THAT(reserved, ElementsAre(1000));
  EXPECT_EQ(assembler.missing(), 0u);
  EXPECT_EQ(assembler.waiting(), 1005u);
}

TEST(MessageAssembler, BytesMayComeToTheirPlace) {
  MessageAssembler assembler(kMax);
  EXPECT_EQ(assembler.room().size, 0u);
  const std::string content(1000, 'c');
  const std::string framed = Framed(content);
  ASSERT_TRUE(assembler.Add(framed.substr(0, 105), Allow).ok());
  for (const size_t more : {400, 500}) {
    const MessageAssembler::Room room = assembler.room();
    EXPECT_EQ(room.size, assembler.missing());
    ASSERT_GE(room.size, more);
    std::memset(room.memory, 'c', more);
    ASSERT_TRUE(assembler.Add({room.memory, more}, Allow).ok());
  }
  EXPECT_EQ(assembler.room().size, 0u);
  ASSERT_TRUE(assembler.has_message());
  EXPECT_EQ(assembler.Take().Joined(), content);
  // Not for what has to wait until other bytes are read.
  assembler.Keep("x");
  EXPECT_EQ(assembler.room().size, 0u);
}

// So that a tensor at its end is aligned.
TEST(MessageAssembler, TheEndIsAMultipleOf64) {
  for (const size_t size : {1, 63, 64, 65, 300'000}) {
    MessageAssembler assembler(kMax);
    ASSERT_TRUE(assembler.Add(Framed(std::string(size, 'x')), Allow).ok());
    const ByteChain message = assembler.Take();
    const ByteSlice& whole = message.slices().front();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(whole.data + whole.size) % 64, 0u);
    EXPECT_EQ(message.Joined(), std::string(size, 'x'));
  }
}

TEST(MessageAssembler, ManySmallOnesBehindEachOther) {
  MessageAssembler assembler(kMax);
  std::string all;
  for (int i = 0; i < 13'000; ++i) all += Framed("");
  ASSERT_TRUE(assembler.Add(all, Allow).ok());
  int messages = 0;
  while (assembler.has_message()) {
    assembler.Take();
    ++messages;
    ASSERT_TRUE(assembler.Resume(Allow).ok());
  }
  EXPECT_EQ(messages, 13'000);
}

TEST(MessageAssembler, TooLongWhateverElseIsThere) {
  MessageAssembler assembler(kMax);
  const CallStatus status =
      assembler.Add(std::string("\0\xFF\xFF\xFF\xFF", 5), Allow);
  EXPECT_EQ(status.code, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message,
            "expected a message of at most 1048576 bytes, got one of "
            "4294967295");
}

TEST(MessageAssembler, FlagsThatAreNone) {
  EXPECT_EQ(MessageAssembler(kMax).Add(Framed("x", 2), Allow).code,
            absl::StatusCode::kInternal);
  const CallStatus status = MessageAssembler(kMax).Add(Framed("x", 1), Allow);
  EXPECT_EQ(status.code, absl::StatusCode::kInternal);
  EXPECT_THAT(status.message, HasSubstr("grpc-encoding"));
}

TEST(MessageAssembler, CompressedAndPlainOnesInTurn) {
  MessageAssembler assembler(kMax);
  assembler.SetEncoding(Encoding::kGzip);
  const std::string all =
      Framed(Compressed("first", true), 1) + Framed("second");
  ASSERT_TRUE(assembler.Add(all, Allow).ok());
  ASSERT_TRUE(assembler.inflating());
  while (assembler.inflating()) ASSERT_TRUE(assembler.Step(Allow).ok());
  ASSERT_TRUE(assembler.has_message());
  EXPECT_EQ(assembler.Take().Joined(), "first");
  ASSERT_TRUE(assembler.Resume(Allow).ok());
  EXPECT_EQ(assembler.Take().Joined(), "second");
}

}  // namespace
}  // namespace stoker
