#include "base/thread.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace stoker {
namespace {

TEST(ThreadTest, HasItsNameCutToWhatTheKernelKeeps) {
  std::array<char, 32> name = {};
  Thread thread("device-thread-0-of-model",
                [&] { pthread_getname_np(pthread_self(), name.data(), 32); });
  thread.Join();
  EXPECT_EQ(std::string(name.data()), "device-thread-0");
}

TEST(ThreadTest, DestructorJoins) {
  std::atomic<bool> done = false;
  {
    Thread thread("short", [&] { done = true; });
  }
  EXPECT_TRUE(done);
}

TEST(ThreadTest, AssignmentJoinsTheThreadThatWasThere) {
  std::atomic<int> done = 0;
  Thread thread("first", [&] { ++done; });
  thread = Thread("second", [] {});
  EXPECT_EQ(done, 1);
}

TEST(ThreadTest, EmptyAndJoinedThreadsCanBeJoinedAgain) {
  Thread empty;
  empty.Join();
  Thread thread("once", [] {});
  thread.Join();
  thread.Join();
}

}  // namespace
}  // namespace stoker
