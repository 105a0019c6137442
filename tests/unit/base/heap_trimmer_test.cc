#include "base/heap_trimmer.h"

#include <gtest/gtest.h>

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

TEST(HeapTrimmer, LooksAtTheRealHeap) {
  HeapTrimmer trimmer;
  for (int i = 0; i < 3; ++i) {
    trimmer.Look(MonotonicTime() + i * HeapTrimmer::kPeriod);
  }
}

}  // namespace
}  // namespace stoker
