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

}  // namespace
}  // namespace stoker
