#include "batching/device_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/thread.h"
#include "metrics/catalog.h"
#include "metrics/metrics.h"
#include "tests/fakes/fake_clock.h"

namespace stoker {
namespace {

class DeviceTurnsTest : public ::testing::Test {
 protected:
  using Client = DeviceTurns::Client;
  using Turn = DeviceTurns::Turn;

  FakeClock clock_;
  DeviceTurns turns_{2, clock_};
};

TEST_F(DeviceTurnsTest, TurnsThatFitBesideEachOtherDoNotWait) {
  Client a(turns_, 1, 1), b(turns_, 1, 1);
  Turn one = DeviceTurns::Take(a);
  Turn two = DeviceTurns::Take(b);
  EXPECT_FALSE(DeviceTurns::TryTake(a).has_value());
}

TEST_F(DeviceTurnsTest, MoreCoresThanThereAreIsAllOfThem) {
  Client greedy(turns_, 64, 1);
  DeviceTurns::Take(greedy);
}

TEST_F(DeviceTurnsTest, ATurnEndsOnce) {
  Client a(turns_, 2, 1);
  Turn turn = DeviceTurns::Take(a);
  Turn moved = std::move(turn);
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  turn.End();  // nothing
  EXPECT_FALSE(turns_.idle());
  moved.End();
  EXPECT_TRUE(turns_.idle());
  moved.End();
  moved = DeviceTurns::Take(a);
  moved = Turn();
  DeviceTurns::Take(a);
}

// Threads that want nothing but turns. Whoever has one ends it only when all
// others wait, so that the order is the turns' own choice.
class Crowd {
 public:
  Crowd(DeviceTurns& turns, FakeClock& clock, int turns_to_give)
      : turns_(turns), clock_(clock), left_(turns_to_give) {
    gate_ = std::make_unique<DeviceTurns::Client>(turns_, 64, 1);
    closed_ = DeviceTurns::Take(*gate_);
  }

  void Add(char name, DeviceTurns::Client& client,
           absl::Duration run = absl::Milliseconds(1)) {
    ++alive_;
    threads_.emplace_back("crowd", [this, name, &client, run] {
      DeviceTurns::Turn turn = DeviceTurns::Take(client);
      while (Run(name, run)) {
        turn.Renew();
        turn.Await();
      }
    });
  }

  // Who got the turns, in order.
  std::string Give() {
    AwaitOthers(alive_);
    closed_.End();
    threads_.clear();  // joins
    return given_;
  }

 private:
  void AwaitOthers(int count) {
    while (turns_.waiting() < count) std::this_thread::yield();
  }

  bool Run(char name, absl::Duration run) {
    AwaitOthers(alive_ - 1);
    clock_.Advance(run);
    if (left_ == 0) {
      --alive_;
      return false;
    }
    --left_;
    given_ += name;
    return true;
  }

  DeviceTurns& turns_;
  FakeClock& clock_;
  std::unique_ptr<DeviceTurns::Client> gate_;
  DeviceTurns::Turn closed_;
  // Written by whoever has the turn.
  std::atomic<int> alive_{0};
  int left_;
  std::string given_;
  std::vector<Thread> threads_;
};

// The rule that the manual gives: with two models that always have requests to
// run, each one's part of the time is within 20 % of its weight's, whatever its
// runs take, with one thread each.
TEST_F(DeviceTurnsTest, OfTwoBusyModelsEachGetsTheTimeOfItsWeight) {
  const struct {
    double weight_a, weight_b;
    absl::Duration run_a, run_b;
  } cases[] = {
      {1, 1, absl::Milliseconds(1), absl::Milliseconds(1)},
      {1, 3, absl::Milliseconds(1), absl::Milliseconds(1)},
      {1, 0.5, absl::Milliseconds(1), absl::Milliseconds(1)},
      {1, 10, absl::Milliseconds(7), absl::Milliseconds(1)},
      {10, 1, absl::Milliseconds(7), absl::Milliseconds(1)},
      {1, 4, absl::Milliseconds(1), absl::Milliseconds(25)},
  };
  for (const auto& test : cases) {
    DeviceTurns turns(2, clock_);
    Client a(turns, 2, test.weight_a), b(turns, 2, test.weight_b);
    Crowd crowd(turns, clock_, 600);
    crowd.Add('a', a, test.run_a);
    crowd.Add('b', b, test.run_b);
    const std::string given = crowd.Give();
    const auto time = [&](char name, absl::Duration run) {
      return absl::ToDoubleSeconds(run) *
             static_cast<double>(std::count(given.begin(), given.end(), name));
    };
    const double of_a = time('a', test.run_a), of_b = time('b', test.run_b);
    const double fair_a = test.weight_a / (test.weight_a + test.weight_b);
    EXPECT_NEAR(of_a / (of_a + of_b), fair_a, 0.2 * fair_a) << given;
    EXPECT_NEAR(of_b / (of_a + of_b), 1 - fair_a, 0.2 * (1 - fair_a));
  }
}

TEST_F(DeviceTurnsTest, TheLighterOneIsNotStarved) {
  Client a(turns_, 2, 1), b(turns_, 2, 4);
  Crowd crowd(turns_, clock_, 1000);
  crowd.Add('a', a);
  crowd.Add('b', b);
  const std::string given = crowd.Give();
  // The longest that the lightest waited, in turns of the other.
  size_t longest = 0, since = 0;
  for (const char name : given) {
    since = name == 'a' ? 0 : since + 1;
    longest = std::max(longest, since);
  }
  EXPECT_LE(longest, 5u);
}

TEST_F(DeviceTurnsTest, WhoAsksAnewStandsBehindWhoIsDue) {
  Client a(turns_, 2, 1), b(turns_, 2, 1);
  Turn mine = DeviceTurns::Take(a);
  Turn other;
  Thread waiter("waiter", [&] { other = DeviceTurns::Take(b); });
  while (turns_.waiting() == 0) std::this_thread::yield();
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_FALSE(mine.Renew());
  waiter.Join();
  EXPECT_EQ(turns_.waiting(), 1);
  mine.End();  // without having come
  EXPECT_EQ(turns_.waiting(), 0);
  other.End();
  EXPECT_TRUE(turns_.idle());
  mine = DeviceTurns::Take(a);
  EXPECT_TRUE(mine.Renew());
}

TEST_F(DeviceTurnsTest, ThereIsAsMuchAsWhoTakesMost) {
  DeviceTurns turns(DeviceTurns::kAsAsked, clock_);
  Client one(turns, 1, 1);
  {
    Client three(turns, 3, 1);
    EXPECT_EQ(turns.clients(), 2);
    Turn all = DeviceTurns::Take(three);
    EXPECT_FALSE(DeviceTurns::TryTake(one).has_value());
    all.End();
    three.Leave();
    three.Leave();
  }
  EXPECT_EQ(turns.clients(), 1);
  const Turn only = DeviceTurns::Take(one);
  EXPECT_FALSE(DeviceTurns::TryTake(one).has_value());
}

TEST_F(DeviceTurnsTest, TimesAreRecorded) {
  MetricRegistry metrics;
  const Labels of_resource = {{"resource", "slots"}};
  const Labels labels = {
      {"model", "a"}, {"version", "1"}, {"resource", "slots"}};
  turns_.Show(metrics.Gauge(metric::kResourceUnits, of_resource),
              metrics.Gauge(metric::kResourceUnitsTaken, of_resource));
  Client other(turns_, 1, 1);
  Client client(turns_, 2, 1,
                {metrics.Counter(metric::kResourceSeconds, labels),
                 metrics.Counter(metric::kResourceWaitSeconds, labels)});
  Turn held = DeviceTurns::Take(other);
  EXPECT_EQ(MetricValue(metrics, "stoker_resource_units"), 2);
  EXPECT_EQ(MetricValue(metrics, "stoker_resource_units_taken"), 1);
  Turn turn;
  Thread waiter("waiter", [&] { turn = DeviceTurns::Take(client); });
  while (turns_.waiting() == 0) std::this_thread::yield();
  clock_.Advance(absl::Seconds(3));
  held.End();
  waiter.Join();
  clock_.Advance(absl::Seconds(5));
  turn.End();
  EXPECT_EQ(MetricValue(metrics, "stoker_resource_wait_seconds_total"), 3);
  EXPECT_EQ(MetricValue(metrics, "stoker_resource_seconds_total"), 10);
  EXPECT_EQ(MetricValue(metrics, "stoker_resource_units_taken"), 0);
}

TEST_F(DeviceTurnsTest, ThriceTheWeightIsThriceTheTime) {
  Client a(turns_, 2, 1), b(turns_, 2, 3);
  Crowd crowd(turns_, clock_, 400);
  crowd.Add('a', a);
  for (int i = 0; i < 4; ++i) crowd.Add('b', b);
  const std::string given = crowd.Give();
  EXPECT_NEAR(static_cast<double>(std::count(given.begin(), given.end(), 'b')),
              300, 3);
}

TEST_F(DeviceTurnsTest, WhoNeedsAllCoresIsNotPassedBy) {
  Client small(turns_, 1, 1), large(turns_, 2, 1);
  Turn one = DeviceTurns::Take(small);
  std::atomic<bool> large_ran = false;
  Thread wide("wide", [&] {
    const Turn turn = DeviceTurns::Take(large);
    large_ran = true;
  });
  while (turns_.waiting() < 1) std::this_thread::yield();
  Client late(turns_, 1, 1);
  bool late_was_last = false;
  Thread narrow("narrow", [&] {
    const Turn turn = DeviceTurns::Take(late);
    late_was_last = large_ran;
  });
  while (turns_.waiting() < 2) std::this_thread::yield();
  one.End();
  wide.Join();
  narrow.Join();
  EXPECT_TRUE(late_was_last);
}

TEST_F(DeviceTurnsTest, ATryTakesOnlyWhatIsFree) {
  Client one(turns_, 1, 1), all(turns_, 2, 1);
  std::optional<Turn> first = DeviceTurns::TryTake(one);
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(DeviceTurns::TryTake(all).has_value());
  EXPECT_TRUE(DeviceTurns::TryTake(one).has_value());  // given back at once
  first->End();
  EXPECT_TRUE(DeviceTurns::TryTake(all).has_value());
}

// A run can't be interrupted, and may take minutes.
TEST_F(DeviceTurnsTest, ARunThatTakesLongLendsWhatItHolds) {
  DeviceTurns turns(2, clock_, absl::Milliseconds(200));
  Client slow(turns, 2, 1), other(turns, 2, 1);
  Turn held = DeviceTurns::Take(slow);
  clock_.Advance(absl::Milliseconds(50));
  Turn beside;
  Thread waiter("waiter", [&] { beside = DeviceTurns::Take(other); });
  clock_.BlockUntilWaiters(1);
  clock_.Advance(absl::Milliseconds(149));
  EXPECT_EQ(turns.waiting(), 1);
  clock_.Advance(absl::Milliseconds(1));
  waiter.Join();
  // From now on it holds nothing.
  EXPECT_FALSE(DeviceTurns::TryTake(other).has_value());
  beside.End();
  beside = *DeviceTurns::TryTake(other);
  held.End();
  EXPECT_FALSE(DeviceTurns::TryTake(slow).has_value());
  beside.End();
  EXPECT_TRUE(DeviceTurns::TryTake(slow).has_value());
}

TEST_F(DeviceTurnsTest, WhoWaitsIsAskedForPatienceByEachRunAnew) {
  DeviceTurns turns(2, clock_, absl::Milliseconds(200));
  Client first(turns, 2, 1), second(turns, 2, 4), last(turns, 2, 1);
  Turn held = DeviceTurns::Take(first);
  clock_.Advance(absl::Milliseconds(100));
  Turn next;
  Thread runs_next("next", [&] { next = DeviceTurns::Take(second); });
  clock_.BlockUntilWaiters(1);
  Turn got;
  Thread waits("last", [&] { got = DeviceTurns::Take(last); });
  clock_.BlockUntilWaiters(2);
  held.End();
  runs_next.Join();
  clock_.BlockUntilWaiters(1);
  clock_.Advance(absl::Milliseconds(199));
  EXPECT_EQ(turns.waiting(), 1);
  clock_.BlockUntilWaiters(1);
  clock_.Advance(absl::Milliseconds(1));
  waits.Join();
  EXPECT_EQ(turns.waiting(), 0);
}

TEST_F(DeviceTurnsTest, ATryPassesNobodyWhoWaits) {
  Client one(turns_, 1, 1), all(turns_, 2, 1);
  Turn held = DeviceTurns::Take(one);
  Thread waiter("waiter", [&] { DeviceTurns::Take(all); });
  while (turns_.waiting() == 0) std::this_thread::yield();
  EXPECT_FALSE(DeviceTurns::TryTake(one).has_value());
  held.End();
  waiter.Join();
}

TEST_F(DeviceTurnsTest, ATryIsPaidForAsAnyTurn) {
  Client trying(turns_, 2, 1), other(turns_, 2, 1);
  {
    const std::optional<Turn> turn = DeviceTurns::TryTake(trying);
    clock_.Advance(absl::Milliseconds(10));
  }
  Crowd crowd(turns_, clock_, 8);
  for (int i = 0; i < 3; ++i) {
    crowd.Add('t', trying);
    crowd.Add('o', other);
  }
  EXPECT_EQ(crowd.Give().substr(0, 8), "oooooooo");
}

TEST_F(DeviceTurnsTest, WhoWasIdleHasSavedNothing) {
  Client busy(turns_, 2, 1), idle(turns_, 2, 1);
  for (int i = 0; i < 100; ++i) {
    const Turn turn = DeviceTurns::Take(busy);
    clock_.Advance(absl::Milliseconds(1));
  }
  Crowd crowd(turns_, clock_, 40);
  for (int i = 0; i < 3; ++i) {
    crowd.Add('b', busy);
    crowd.Add('i', idle);
  }
  const std::string given = crowd.Give();
  EXPECT_NEAR(static_cast<double>(std::count(given.begin(), given.end(), 'b')),
              20, 2);
}

}  // namespace
}  // namespace stoker
