#include "base/memory_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/fakes/fake_clock.h"

namespace stoker {
namespace {

class MemoryWatchTest : public ::testing::Test {
 protected:
  std::optional<GroupMemory> Read() const {
    return GroupMemory{.used = used_.load(), .limit = 1000};
  }
  // Looks once more, with so much in use.
  void LookAt(int64_t used) {
    clock_.BlockUntilWaiters(1);
    used_.store(used);
    clock_.Advance(MemoryWatch::kPeriod);
    clock_.BlockUntilWaiters(1);
  }

  FakeClock clock_;
  std::atomic<int64_t> used_ = 100;
  std::atomic<int> told_ = 0;
  std::atomic<int64_t> last_ = 0;
};

TEST_F(MemoryWatchTest, TellsOnceEachTime) {
  MemoryWatch watch([this] { return Read(); },
                    [this](const GroupMemory& memory) {
                      last_.store(memory.used);
                      told_.fetch_add(1);
                    },
                    clock_);
  LookAt(900);
  EXPECT_EQ(told_.load(), 0);
  LookAt(901);
  EXPECT_EQ(told_.load(), 1);
  EXPECT_EQ(last_.load(), 901);
  LookAt(990);
  LookAt(810);
  LookAt(990);
  EXPECT_EQ(told_.load(), 1);
  LookAt(799);
  LookAt(960);
  EXPECT_EQ(told_.load(), 2);
  EXPECT_EQ(last_.load(), 960);
}

TEST_F(MemoryWatchTest, WithoutALimitNobodyLooks) {
  int looks = 0;
  {
    MemoryWatch watch(
        [&] {
          ++looks;
          return std::nullopt;
        },
        [](const GroupMemory&) {}, clock_);
  }
  EXPECT_EQ(looks, 1);
}

TEST(NearlyOutOfMemory, NamesTheFix) {
  EXPECT_EQ(
      NearlyOutOfMemory({.used = 2040109466, .limit = 2147483648}, 1073741824),
      "memory is nearly out: 1.90 of 2.00 GiB are in use, 1.00 GiB of it "
      "by stokerd itself; at the limit the kernel ends it without "
      "another word (exit code 137). Raise the limit, or lower "
      "--max-request-memory-mb, --compile-jobs, or a model's instances "
      "or buckets");
}

}  // namespace
}  // namespace stoker
