#include "batching/run_turns.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "base/thread.h"
#include "tests/fakes/fake_clock.h"

namespace stoker {
namespace {

class RunTurnsTest : public ::testing::Test {
 protected:
  RunTurns Model(DeviceTurns& device, int slots) {
    return RunTurns({"cpu", &device, {{"slots", &slots_, slots}}}, 1, 1,
                    metrics_, {{"model", "m"}, {"version", "1"}});
  }

  FakeClock clock_;
  MetricRegistry metrics_;
  DeviceTurns slots_{2, clock_};
  DeviceTurns device_{4, clock_};
  DeviceTurns other_device_{4, clock_};
};

TEST_F(RunTurnsTest, AResourceIsSharedAcrossDevices) {
  RunTurns a = Model(device_, 2), b = Model(other_device_, 1);
  std::optional<RunTurns::Turn> first = a.TryTake();
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(b.TryTake().has_value());
  first->End();
  const std::optional<RunTurns::Turn> one = b.TryTake();
  const std::optional<RunTurns::Turn> two = b.TryTake();
  EXPECT_TRUE(two.has_value());
  EXPECT_FALSE(b.TryTake().has_value());
}

TEST_F(RunTurnsTest, WhoDoesNotGetAllKeepsNothing) {
  DeviceTurns::Client hog(device_, 4, 1);
  const DeviceTurns::Turn all = DeviceTurns::Take(hog);
  RunTurns a = Model(device_, 2), b = Model(other_device_, 2);
  EXPECT_FALSE(a.TryTake().has_value());  // slots, but no device
  EXPECT_TRUE(b.TryTake().has_value());
}

// Cores are not kept for who waits for a resource.
TEST_F(RunTurnsTest, WhoWaitsForAResourceLeavesTheDeviceToOthers) {
  RunTurns a = Model(device_, 2), b = Model(device_, 2);
  RunTurns::Turn held;
  a.Complete(held);
  RunTurns::Turn waits;
  Thread waiter("waiter", [&] { b.Complete(waits); });
  while (slots_.waiting() == 0) std::this_thread::yield();
  DeviceTurns::Client rest(device_, 3, 1);
  EXPECT_TRUE(DeviceTurns::TryTake(rest).has_value());
  held.End();
  waiter.Join();
  EXPECT_FALSE(a.TryTake().has_value());
}

TEST_F(RunTurnsTest, WhoAsksAnewEndsWhatItMayNotKeep) {
  RunTurns a = Model(device_, 2), b = Model(other_device_, 2);
  RunTurns::Turn mine;
  a.Complete(mine);
  EXPECT_TRUE(mine.Renew());
  RunTurns::Turn waits;
  Thread waiter("waiter", [&] { b.Complete(waits); });
  while (slots_.waiting() == 0) std::this_thread::yield();
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_FALSE(mine.Renew());
  waiter.Join();
  EXPECT_TRUE(device_.idle());
  waits.End();
  a.Complete(mine);
  EXPECT_FALSE(device_.idle());
}

}  // namespace
}  // namespace stoker
