#include "metrics/recent_refusals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/fakes/fake_clock.h"

namespace stoker {
namespace {

using ::testing::SizeIs;
using Refusal = RecentRefusals::Refusal;

TEST(RecentRefusalsTest, TheNewestComesFirst) {
  FakeClock clock;
  RecentRefusals refusals(clock);
  EXPECT_THAT(refusals.Read(), SizeIs(0));
  const absl::Time first = clock.WallNow();
  refusals.Add("cache", "621b6bbffda9", "checksum", "model.so: other bytes");
  clock.Advance(absl::Seconds(2));
  refusals.Add("promotion", "m:1 batch=8", "profit", "0.98 x eager");
  const std::vector<Refusal> read = refusals.Read();
  ASSERT_THAT(read, SizeIs(2));
  EXPECT_EQ(read[0].what, "promotion");
  EXPECT_EQ(read[0].of, "m:1 batch=8");
  EXPECT_EQ(read[0].label, "profit");
  EXPECT_EQ(read[0].reason, "0.98 x eager");
  EXPECT_EQ(read[0].time, first + absl::Seconds(2));
  EXPECT_EQ(read[1].what, "cache");
  EXPECT_EQ(read[1].time, first);
}

TEST(RecentRefusalsTest, KeepsABoundedNumberOfBoundedTexts) {
  FakeClock clock;
  RecentRefusals refusals(clock);
  for (size_t i = 0; i < RecentRefusals::kKept + 5; ++i) {
    refusals.Add("cache", std::to_string(i), "open", std::string(5000, 'x'));
  }
  const std::vector<Refusal> read = refusals.Read();
  ASSERT_THAT(read, SizeIs(RecentRefusals::kKept));
  EXPECT_EQ(read.front().of, std::to_string(RecentRefusals::kKept + 4));
  EXPECT_EQ(read.back().of, "5");
  EXPECT_EQ(read.front().reason,
            std::string(RecentRefusals::kMaxReasonBytes, 'x') + "…");
}

TEST(RecentRefusalsTest, BytesThatAreNoUtf8AreReplaced) {
  FakeClock clock;
  RecentRefusals refusals(clock);
  // The last character is cut in two.
  const std::string long_text =
      std::string(RecentRefusals::kMaxReasonBytes - 1, 'x') + "é";
  refusals.Add("promotion", "m\xff", "compile", long_text);
  const Refusal refusal = refusals.Read()[0];
  EXPECT_EQ(refusal.of, "m?");
  EXPECT_EQ(refusal.reason,
            std::string(RecentRefusals::kMaxReasonBytes - 1, 'x') + "?…");
}

TEST(RecentRefusalsTest, ManyThreadsMayAdd) {
  RecentRefusals refusals(Clock::Real());
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&refusals] {
      for (int k = 0; k < 100; ++k) {
        refusals.Add("cache", "key", "open", "reason");
        refusals.Read();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(refusals.Read(), SizeIs(RecentRefusals::kKept));
}

}  // namespace
}  // namespace stoker
