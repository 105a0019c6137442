#include "wire/output_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace stoker {
namespace {

// Takes a random number of bytes at a time, and nothing more once full.
class SlowStream final : public ByteStream {
 public:
  int descriptor() const override { return -1; }
  long Receive(const iovec*, int) override { return kLater; }
  long Send(const iovec* pieces, int count) override {
    if (broken) return kBroken;
    size_t room = random_() % 9000;
    if (room == 0) return kLater;
    long taken = 0;
    for (int i = 0; i < count && room > 0; ++i) {
      const size_t here = std::min(room, pieces[i].iov_len);
      sent.append(static_cast<const char*>(pieces[i].iov_base), here);
      room -= here;
      taken += static_cast<long>(here);
    }
    return taken;
  }

  std::string sent;
  bool broken = false;

 private:
  std::mt19937 random_{11};
};

TEST(OutputBuffer, EveryByteInOrder) {
  OutputBuffer output;
  SlowStream stream;
  std::mt19937 random(5);
  std::string all;
  for (int i = 0; i < 500; ++i) {
    std::string piece(random() % 6000, static_cast<char>('a' + i % 26));
    all += piece;
    if (i % 2 == 0) {
      output.Append(piece);
    } else {
      const ByteChain chain = ByteChain::Copy("head" + piece + "tail");
      output.Append(chain.slices().front(), 4, piece.size());
    }
    EXPECT_EQ(output.appended(), all.size());
    ASSERT_TRUE(output.SendTo(stream));
    EXPECT_EQ(output.sent(), stream.sent.size());
  }
  while (!output.empty()) ASSERT_TRUE(output.SendTo(stream));
  EXPECT_TRUE(stream.sent == all);
}

TEST(OutputBuffer, LargeSlicesAreSharedUntilTheyAreSent) {
  OutputBuffer output;
  SlowStream stream;
  auto memory = std::make_shared<std::string>(100'000, 'x');
  const std::weak_ptr<std::string> watched = memory;
  output.Append(
      {memory, reinterpret_cast<const std::byte*>(memory->data()), 100'000}, 0,
      100'000);
  memory.reset();
  EXPECT_FALSE(watched.expired());
  while (!output.empty()) ASSERT_TRUE(output.SendTo(stream));
  EXPECT_TRUE(watched.expired());
}

TEST(OutputBuffer, ABrokenStreamIsReported) {
  OutputBuffer output;
  SlowStream stream;
  EXPECT_TRUE(output.SendTo(stream));  // there is nothing to send
  output.Append("x");
  stream.broken = true;
  EXPECT_FALSE(output.SendTo(stream));
}

}  // namespace
}  // namespace stoker
