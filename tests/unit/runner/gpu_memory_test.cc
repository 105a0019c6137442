#include "runner/gpu_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "metrics/catalog.h"

namespace stoker {
namespace {

using testing::HasSubstr;

constexpr int64_t kGib = int64_t{1} << 30;

TEST(GpuMemoryTest, CountsWhatIsTakenUntilItIsGivenBack) {
  MetricRegistry metrics;
  GpuMemory memory("cuda:0", 80 * kGib, &metrics);
  const auto gauge = [&](const char* use) {
    return MetricValue(metrics, metric::kGpuMemory.name,
                       {{"device", "cuda:0"}, {"use", use}});
  };
  auto weights = memory.Take(GpuUse::kWeights, "a", 3 * kGib, 79 * kGib);
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
                                   3 * kGib, 3 * kGib + kGib / 8);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(std::string(refused.status().message()),
            "weights of /models/m/1/model.pt2 take 3.00 GiB, of cuda:1's 80.00 "
            "are 3.12 free: weights 60.00, eager 10.00, graphs 0.00, other "
            "6.88, and 0.25 have to stay free");
  EXPECT_EQ(memory.used(GpuUse::kWeights), 60 * kGib);
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
