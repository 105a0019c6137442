#include "runner/spare_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = SpareMemory::Kind;

class SpareMemoryTest : public ::testing::Test {
 protected:
  // Has something to let go of, so many times.
  std::unique_ptr<SpareMemory::Offer> Offer(Kind kind, std::string name,
                                            int times = 1) {
    return spares_.Add(
        kind, [this, name, times](std::string_view whom) mutable {
          if (times == 0) return false;
          --times;
          gone_.push_back(absl::StrCat(name, " for ", std::string(whom)));
          return true;
        });
  }

  SpareMemory spares_;
  std::vector<std::string> gone_;
};

TEST_F(SpareMemoryTest, GraphsGoBeforeEagerAndTheFirstOfferFirst) {
  const auto eager = Offer(Kind::kEager, "eager");
  const auto one = Offer(Kind::kGraphs, "one");
  const auto two = Offer(Kind::kGraphs, "two", 2);
  int released = 0;
  while (spares_.ReleaseNext("m:1")) ++released;
  EXPECT_EQ(released, 4);
  EXPECT_THAT(gone_, ElementsAre("one for m:1", "two for m:1", "two for m:1",
                                 "eager for m:1"));
}

TEST_F(SpareMemoryTest, AllOfOneKindLeavesTheOther) {
  const auto eager = Offer(Kind::kEager, "eager");
  const auto one = Offer(Kind::kGraphs, "one");
  const auto two = Offer(Kind::kGraphs, "two");
  EXPECT_TRUE(spares_.ReleaseAll(Kind::kGraphs, "m:1"));
  EXPECT_THAT(gone_, ElementsAre("one for m:1", "two for m:1"));
  EXPECT_FALSE(spares_.ReleaseAll(Kind::kGraphs, "m:1"));
}

TEST_F(SpareMemoryTest, WhatIsGoneIsNotAsked) {
  Offer(Kind::kGraphs, "one").reset();
  EXPECT_FALSE(spares_.ReleaseNext("m:1"));
  EXPECT_THAT(gone_, IsEmpty());
}

TEST(SpareMemoryLifeTest, AnOfferMayOutliveTheSpares) {
  auto spares = std::make_unique<SpareMemory>();
  const auto offer =
      spares->Add(Kind::kGraphs, [](std::string_view) { return true; });
  spares.reset();
}

TEST(SpareMemoryLifeTest, WhoWithdrawsWaitsForAReleaseUnderWay) {
  SpareMemory spares;
  absl::Notification begun;
  absl::Notification go_on;
  bool over = false;
  auto offer = spares.Add(Kind::kGraphs, [&](std::string_view) {
    begun.Notify();
    go_on.WaitForNotification();
    over = true;
    return true;
  });
  std::thread taker([&] { EXPECT_TRUE(spares.ReleaseNext("m:1")); });
  begun.WaitForNotification();
  std::thread withdrawing([&] {
    offer.reset();
    EXPECT_TRUE(over);
  });
  go_on.Notify();
  withdrawing.join();
  taker.join();
}

}  // namespace
}  // namespace stoker
