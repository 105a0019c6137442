#include "wire/frame_meter.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace stoker {
namespace {

TEST(FrameMeter, SeesEveryHeadWhateverTheCuts) {
  std::string all = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  std::vector<std::pair<size_t, int>> sent;
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const size_t size = random() % 5 == 0 ? 0 : random() % 70'000;
    const int type = static_cast<int>(random() % 256);
    sent.emplace_back(size, type);
    all += {static_cast<char>(size >> 16),
            static_cast<char>(size >> 8),
            static_cast<char>(size),
            static_cast<char>(type),
            1,
            0,
            0,
            0,
            1};
    all.append(size, 'x');
  }
  for (const size_t most : {1, 10, 100'000}) {
    FrameMeter meter;
    std::vector<std::pair<size_t, int>> seen;
    for (size_t at = 0; at < all.size();) {
      const size_t size = std::min(all.size() - at, 1 + random() % most);
      meter.Add(std::string_view(all).substr(at, size),
                [&](const FrameMeter::Head& head) {
                  seen.emplace_back(head.length, head.type);
                  EXPECT_EQ(head.flags, 1);
                });
      at += size;
    }
    EXPECT_EQ(seen, sent);
  }
}

class UnfinishedTest : public ::testing::Test {
 protected:
  UnfinishedTest() { Add("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); }
  void Add(const std::string& bytes) {
    meter_.Add(bytes, [](const FrameMeter::Head&) {});
  }
  // So much of a frame's payload is here.
  void Begin(int type, int flags, size_t size, size_t here) {
    Add({0, static_cast<char>(size >> 8), static_cast<char>(size),
         static_cast<char>(type), static_cast<char>(flags), 0, 0, 0, 1});
    Add(std::string(here, 'x'));
  }

  FrameMeter meter_;
};

TEST_F(UnfinishedTest, HeadersAreSoUntilTheLastIsWhole) {
  Begin(1, 0, 100, 60);
  EXPECT_EQ(meter_.unfinished(), 60u);
  Add(std::string(40, 'x'));
  EXPECT_EQ(meter_.unfinished(), 100u);
  Begin(9, 0, 20, 20);
  EXPECT_EQ(meter_.unfinished(), 120u);
  Begin(9, 4, 10, 9);
  EXPECT_EQ(meter_.unfinished(), 129u);
  Add("x");
  EXPECT_EQ(meter_.unfinished(), 0u);
  Begin(1, 4, 100, 100);
  EXPECT_EQ(meter_.unfinished(), 0u);
}

TEST_F(UnfinishedTest, OthersAreNotKept) {
  Begin(7, 0, 50, 20);  // a goodbye's text is
  EXPECT_EQ(meter_.unfinished(), 20u);
  Add(std::string(30, 'x'));
  for (const int type : {0, 3, 4, 6, 8, 200}) {
    Begin(type, 0, 50, 49);
    EXPECT_EQ(meter_.unfinished(), 0u) << type;
    Add("x");
  }
}

}  // namespace
}  // namespace stoker
