#include "rpc/completion_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

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
