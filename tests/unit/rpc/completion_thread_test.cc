#include "rpc/completion_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/notification.h"

namespace stoker {
namespace {

TEST(CompletionThread, RunsEverythingInOrderBeforeItEnds) {
  std::vector<int> order;
  {
    CompletionThread thread;
    for (int i = 0; i < 1000; ++i) {
      thread.Run([&order, i] { order.push_back(i); });
    }
  }
  ASSERT_EQ(order.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(CompletionThread, IsBusyUntilTheLastIsDone) {
  CompletionThread thread;
  EXPECT_FALSE(thread.busy());
  absl::Notification runs, goes_on;
  thread.Run([&] {
    runs.Notify();
    goes_on.WaitForNotification();
  });
  EXPECT_TRUE(thread.busy());
  runs.WaitForNotification();
  EXPECT_TRUE(thread.busy());
  goes_on.Notify();
  while (thread.busy()) std::this_thread::yield();
}

TEST(CompletionThread, IsAThreadOfItsOwnAndMayBeFedByItself) {
  std::thread::id first, second;
  {
    CompletionThread thread;
    thread.Run([&] {
      first = std::this_thread::get_id();
      thread.Run([&] { second = std::this_thread::get_id(); });
    });
  }
  EXPECT_NE(first, std::this_thread::get_id());
  EXPECT_EQ(first, second);
}

}  // namespace
}  // namespace stoker
