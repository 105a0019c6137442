#include "base/heap_trimmer.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

namespace stoker {
namespace {

constexpr size_t kMuch = 2 * HeapTrimmer::kWorthwhileBytes;

TEST(HeapTrimmer, TrimsWhatStaysFree) {
  HeapTrimmer trimmer;
  MonotonicTime now;
  EXPECT_FALSE(trimmer.Decide(kMuch, now));
  EXPECT_FALSE(trimmer.Decide(kMuch, now + HeapTrimmer::kPeriod / 2));
  EXPECT_TRUE(trimmer.Decide(kMuch, now + HeapTrimmer::kPeriod));
}

// Freed and taken again by each run of a model.
TEST(HeapTrimmer, LeavesWhatIsUsedNowAndThen) {
  HeapTrimmer trimmer;
  MonotonicTime now;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(trimmer.Decide(i % 5 == 0 ? 0 : kMuch, now));
    now += HeapTrimmer::kPeriod / 8;
  }
}

TEST(HeapTrimmer, LeavesLittle) {
  HeapTrimmer trimmer;
  MonotonicTime now;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(trimmer.Decide(HeapTrimmer::kWorthwhileBytes - 1, now));
    now += HeapTrimmer::kPeriod;
  }
}

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;  // pages
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(HeapTrimmer, TrimsAtOnceWhatWasLetGo) {
  constexpr size_t kBlock = 32 << 10;
  std::vector<std::string> blocks;
  for (size_t i = 0; i < kMuch / kBlock; ++i) blocks.emplace_back(kBlock, 'x');
  const std::string behind_them(kBlock, 'x');
  blocks.clear();
  if (mallinfo2().fordblks < kMuch) {
    GTEST_SKIP() << "the heap is not malloc's (a sanitizer's), or was trimmed";
  }
  const int64_t before = ResidentBytes();
  HeapTrimmer::TrimNow();
  EXPECT_LT(ResidentBytes(), before - static_cast<int64_t>(kMuch / 2));
  EXPECT_EQ(behind_them.size(), kBlock);
}

TEST(HeapTrimmer, LooksAtTheRealHeap) {
  HeapTrimmer trimmer;
  for (int i = 0; i < 3; ++i) {
    trimmer.Look(MonotonicTime() + i * HeapTrimmer::kPeriod);
  }
}

}  // namespace
}  // namespace stoker
