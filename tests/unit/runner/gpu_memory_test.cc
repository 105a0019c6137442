#include "runner/gpu_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "metrics/catalog.h"

namespace stoker {
namespace {

using testing::HasSubstr;

constexpr int64_t kGib = int64_t{1} << 30;

// What the driver says.
auto Free(int64_t bytes) {
  return [bytes] { return bytes; };
}

TEST(GpuMemoryTest, CountsWhatIsTakenUntilItIsGivenBack) {
  MetricRegistry metrics;
  GpuMemory memory("cuda:0", 80 * kGib, &metrics);
  const auto gauge = [&](const char* use) {
    return MetricValue(metrics, metric::kGpuMemory.name,
                       {{"device", "cuda:0"}, {"use", use}});
  };
  auto weights = memory.Take(GpuUse::kWeights, "a", 3 * kGib, Free(79 * kGib));
  ASSERT_TRUE(weights.ok());
  GpuMemory::Claim graph = memory.Note(GpuUse::kGraphs, 7);
  const GpuMemory::Claim same = graph;
  EXPECT_EQ(gauge("weights"), 3.0 * kGib);
  EXPECT_EQ(gauge("graphs"), 7);
  graph.reset();
  EXPECT_EQ(memory.used(GpuUse::kGraphs), 7);
  weights->reset();
  EXPECT_EQ(gauge("weights"), 0);
}

TEST(GpuMemoryTest, RefusesWithTheArithmetic) {
  GpuMemory memory("cuda:1", 80 * kGib, nullptr);
  const GpuMemory::Claim weights = memory.Note(GpuUse::kWeights, 60 * kGib);
  const GpuMemory::Claim eager = memory.Note(GpuUse::kEager, 10 * kGib);
  const auto refused = memory.Take(GpuUse::kWeights, "/models/m/1/model.pt2",
                                   3 * kGib, Free(3 * kGib + kGib / 8));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(std::string(refused.status().message()),
            "weights of /models/m/1/model.pt2 take 3.00 GiB, of cuda:1's 80.00 "
            "are 3.12 free: weights 60.00, eager 10.00, graphs 0.00, other "
            "6.88, and 0.25 have to stay free");
  EXPECT_EQ(memory.used(GpuUse::kWeights), 60 * kGib);
}

TEST(GpuMemoryTest, WhatIsPromisedIsNotGivenTwice) {
  GpuMemory memory("cuda:0", 80 * kGib, nullptr);
  auto first = memory.Take(GpuUse::kWeights, "a", 6 * kGib, Free(10 * kGib));
  ASSERT_TRUE(first.ok());
  // It has allocated nothing yet: the driver says the same.
  EXPECT_EQ(memory.taken(GpuUse::kWeights), 0);
  const auto refused =
      memory.Take(GpuUse::kEager, "b", 6 * kGib, Free(10 * kGib));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("are 4.00 free: weights 6.00, eager 0.00, graphs 0.00, "
                        "other 70.00"));
  EXPECT_TRUE(memory.Take(GpuUse::kEager, "c", 3 * kGib, Free(10 * kGib)).ok());
  (*first)->Taken();
  EXPECT_EQ(memory.taken(GpuUse::kWeights), 6 * kGib);
  EXPECT_TRUE(memory.Take(GpuUse::kEager, "d", 3 * kGib, Free(4 * kGib)).ok());
  // Given back without ever having been allocated.
  { auto dropped = memory.Take(GpuUse::kEager, "e", 3 * kGib, Free(4 * kGib)); }
  EXPECT_TRUE(memory.Take(GpuUse::kEager, "f", 3 * kGib, Free(4 * kGib)).ok());
}

// One that is allocated while another asks the driver, which hasn't seen it.
TEST(GpuMemoryTest, WhatIsTakenDuringTheQuestionCounts) {
  GpuMemory memory("cuda:0", 80 * kGib, nullptr);
  const auto first =
      memory.Take(GpuUse::kWeights, "a", 6 * kGib, Free(10 * kGib));
  ASSERT_TRUE(first.ok());
  const auto second = memory.Take(GpuUse::kWeights, "b", 6 * kGib, [&] {
    (*first)->Taken();
    return 10 * kGib;
  });
  EXPECT_TRUE(absl::IsResourceExhausted(second.status())) << second.status();
}

TEST(GpuMemoryTest, AClaimMayOutliveTheBooks) {
  GpuMemory::Claim claim;
  {
    GpuMemory memory("cuda:0", kGib, nullptr);
    claim = memory.Note(GpuUse::kEager, 1);
  }
  claim.reset();
}

}  // namespace
}  // namespace stoker
