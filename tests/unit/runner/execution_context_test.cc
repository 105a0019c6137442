// A context's number of threads is its own, whatever contexts come after it.
#include "runner/execution_context.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "base/thread.h"

namespace stoker {
namespace {

// at::get_num_threads is what torch asks before a parallel region, with the
// same effect on a thread's first one.
TEST(ExecutionContextTest, SetsTheThreadsOfItsThread) {
  for (const int threads : {1, 2, 3}) {
    int used = 0;
    Thread("context", [&]() {
      const auto context = ExecutionContext::CreateCpu(threads);
      EXPECT_EQ(context->threads(), threads);
      used = at::get_num_threads();
    }).Join();
    EXPECT_EQ(used, threads);
  }
}

TEST(ExecutionContextTest, ALaterContextElsewhereChangesNothing) {
  absl::Notification first_made, second_made;
  int used = 0;
  Thread first("first", [&]() {
    const auto context = ExecutionContext::CreateCpu(3);
    first_made.Notify();
    second_made.WaitForNotification();
    used = at::get_num_threads();
  });
  Thread second("second", [&]() {
    first_made.WaitForNotification();
    const auto context = ExecutionContext::CreateCpu(1);
    EXPECT_EQ(at::get_num_threads(), 1);
    second_made.Notify();
  });
  first.Join();
  second.Join();
  EXPECT_EQ(used, 3);
}

}  // namespace
}  // namespace stoker
