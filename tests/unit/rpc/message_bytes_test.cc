#include "rpc/message_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/unit/rpc/codec_fixtures.h"

namespace stoker {
namespace {

std::string Copy(const MessageBytes& bytes, size_t offset, size_t size) {
  std::string out(size, '?');
  bytes.CopyTo(offset, size, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

TEST(MessageBytes, OneSliceIsContiguous) {
  const std::vector<std::string> pieces = {"0123456789"};
  const MessageBytes bytes(InSlices(pieces));
  EXPECT_EQ(bytes.size(), 10u);
  const std::byte* begin = bytes.Contiguous(0, 10);
  ASSERT_NE(begin, nullptr);
  EXPECT_EQ(bytes.Contiguous(3, 7), begin + 3);
  EXPECT_EQ(Copy(bytes, 2, 5), "23456");
}

TEST(MessageBytes, ContiguousWithinASliceOnly) {
  const std::vector<std::string> pieces = {"012", "", "3456", "789"};
  const MessageBytes bytes(InSlices(pieces));
  EXPECT_EQ(bytes.size(), 10u);
  EXPECT_NE(bytes.Contiguous(0, 3), nullptr);
  EXPECT_EQ(bytes.Contiguous(0, 4), nullptr);
  EXPECT_EQ(bytes.Contiguous(2, 2), nullptr);
  const std::byte* second = bytes.Contiguous(3, 4);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(*second, std::byte{'3'});
  EXPECT_EQ(bytes.Contiguous(7, 3), bytes.Contiguous(9, 1) - 2);
  for (size_t offset = 0; offset <= 10; ++offset) {
    for (size_t size = 0; offset + size <= 10; ++size) {
      EXPECT_EQ(Copy(bytes, offset, size),
                std::string("0123456789").substr(offset, size));
    }
  }
}

TEST(MessageBytes, Empty) {
  EXPECT_EQ(MessageBytes(ByteChain()).size(), 0u);
  EXPECT_EQ(MessageBytes(InSlices({})).size(), 0u);
  const std::vector<std::string> pieces = {""};
  EXPECT_EQ(MessageBytes(InSlices(pieces)).size(), 0u);
}

// Any order of reading, giving back and skipping shows the same bytes.
TEST(MessageStream, RandomWalks) {
  std::string text;
  for (int i = 0; i < 200; ++i) text.push_back(static_cast<char>(i));
  std::mt19937 random(1);
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      pieces.push_back(text.substr(at, below(60)));
      at += pieces.back().size();
    }
    const MessageBytes bytes(InSlices(pieces));
    const size_t begin = below(100);
    const size_t size = below(100);
    MessageStream stream(bytes, begin, size);
    size_t at = 0;  // in the stream
    for (int step = 0; step < 50; ++step) {
      const size_t choice = below(3);
      if (choice == 0) {
        const void* data = nullptr;
        int here = 0;
        ASSERT_EQ(stream.Next(&data, &here), at < size);
        if (at == size) continue;
        ASSERT_GT(here, 0);
        EXPECT_EQ(std::string(static_cast<const char*>(data),
                              static_cast<size_t>(here)),
                  text.substr(begin + at, static_cast<size_t>(here)));
        at += static_cast<size_t>(here);
      } else if (choice == 1) {
        const size_t count = below(at + 1);
        stream.BackUp(static_cast<int>(count));
        at -= count;
      } else {
        const size_t count = below(30);
        EXPECT_EQ(stream.Skip(static_cast<int>(count)), at + count <= size);
        at = std::min(size, at + count);
      }
      EXPECT_EQ(stream.ByteCount(), static_cast<int64_t>(at));
    }
  }
}

}  // namespace
}  // namespace stoker
