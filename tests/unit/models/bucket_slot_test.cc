#include "models/bucket_slot.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "metrics/catalog.h"
#include "tests/fakes/fake_executable.h"

namespace stoker {
namespace {

const Labels kLabels = {
    {"model", "m"}, {"version", "1"}, {"bucket", "batch=1"}};

double StateMetric(const MetricRegistry& metrics, const std::string& state) {
  Labels labels = kLabels;
  labels["state"] = state;
  return MetricValue(metrics, metric::kBucketState.name, labels);
}

std::shared_ptr<Executable> OneExecutable() {
  return std::make_shared<FakeExecutable>(
      "aot", [](absl::Span<const Tensor>) { return RunResult{}; });
}

std::vector<std::shared_ptr<Executable>> TwoExecutables() {
  return {OneExecutable(), OneExecutable()};
}

// Of an artifact whose compile took so long.
CacheEntry Entry(double seconds) {
  return {.key = ArtifactKey(KeyFactors()), .compile_seconds = seconds};
}

TEST(BucketSlotTest, StartsPendingAndEmpty) {
  MetricRegistry metrics;
  BucketSlot slot("batch=1", metrics, kLabels);
  EXPECT_EQ(slot.executable(0), nullptr);
  EXPECT_FALSE(slot.settled());
  EXPECT_EQ(StateMetric(metrics, "pending"), 1);
}

TEST(BucketSlotTest, PromotionGivesEachThreadItsOwn) {
  MetricRegistry metrics;
  BucketSlot slot("batch=1", metrics, kLabels);
  const auto executables = TwoExecutables();
  Verdict verdict;
  verdict.profit.speedup = 1.5;
  slot.Promote(executables, verdict, Entry(0));
  EXPECT_EQ(slot.executable(0), executables[0]);
  EXPECT_EQ(slot.executable(1), executables[1]);
  EXPECT_EQ(slot.executable(2), nullptr);
  EXPECT_TRUE(slot.settled());
  EXPECT_EQ(slot.Read().verdict.profit.speedup, 1.5);
  EXPECT_EQ(slot.Read().artifact, Entry(0).id());
  EXPECT_EQ(StateMetric(metrics, "pending"), 0);
  EXPECT_EQ(StateMetric(metrics, "compiled"), 1);
  EXPECT_EQ(MetricValue(metrics, metric::kSpeedup.name, kLabels), 1.5);
}

TEST(BucketSlotTest, WhatIsSlowerOnFewerThreadsServesRunsThatGetAll) {
  MetricRegistry metrics;
  BucketSlot slot("batch=1", metrics, kLabels);
  EXPECT_FALSE(slot.NeedsAllThreads());
  const auto executables = TwoExecutables();
  Verdict verdict;
  slot.Promote(executables, verdict, Entry(0));
  EXPECT_FALSE(slot.NeedsAllThreads());
  EXPECT_EQ(slot.executable(0, /*all_threads=*/false), executables[0]);
  verdict.profit.worth_on_fewer = false;
  slot.Promote(executables, verdict, Entry(0));
  EXPECT_TRUE(slot.NeedsAllThreads());
  EXPECT_EQ(slot.executable(0, /*all_threads=*/false), nullptr);
  EXPECT_EQ(slot.executable(0, /*all_threads=*/true), executables[0]);
}

TEST(BucketSlotTest, AnotherWordIsOnWhatServes) {
  MetricRegistry metrics;
  BucketSlot slot("batch=1", metrics, kLabels);
  Verdict verdict;
  verdict.profit.speedup = 1.5;
  verdict.profit.worth_on_fewer = false;
  slot.Judge(verdict);  // nothing serves
  EXPECT_EQ(slot.Read().verdict.profit.speedup, 0);
  slot.Promote(TwoExecutables(), Verdict(), Entry(0));
  EXPECT_FALSE(slot.NeedsAllThreads());
  slot.Judge(verdict);
  EXPECT_TRUE(slot.NeedsAllThreads());
  EXPECT_EQ(MetricValue(metrics, metric::kSpeedup.name, kLabels), 1.5);
}

TEST(BucketSlotTest, CountsWhatItsCompilePaysBack) {
  MetricRegistry metrics;
  BucketSlot slot("batch=1", metrics, kLabels);
  slot.CountRun();
  EXPECT_EQ(MetricValue(metrics, metric::kSavedSeconds.name, kLabels), 0);
  Verdict verdict;
  verdict.profit.incumbent_seconds = 0.75;
  verdict.profit.candidate_seconds = 0.5;
  slot.Promote(TwoExecutables(), verdict, Entry(10.1));
  slot.CountRun();
  slot.CountRun();
  EXPECT_EQ(MetricValue(metrics, metric::kBucketCompileSeconds.name, kLabels),
            10.1);
  EXPECT_EQ(MetricValue(metrics, metric::kBreakEvenRuns.name, kLabels), 41);
  EXPECT_EQ(MetricValue(metrics, metric::kSavedSeconds.name, kLabels), 0.5);
}

TEST(BucketSlotTest, WhatIsNoFasterSavesNothing) {
  MetricRegistry metrics;
  BucketSlot slot("batch=1", metrics, kLabels);
  Verdict verdict;
  verdict.profit.incumbent_seconds = 0.5;
  verdict.profit.candidate_seconds = 0.6;
  slot.Promote(TwoExecutables(), verdict, Entry(10));
  slot.CountRun();
  EXPECT_EQ(MetricValue(metrics, metric::kSavedSeconds.name, kLabels), 0);
  EXPECT_EQ(MetricValue(metrics, metric::kBreakEvenRuns.name, kLabels), 0);
}

TEST(BucketSlotTest, DemotionEmptiesItAndKeepsTheReason) {
  MetricRegistry metrics;
  BucketSlot slot("batch=1", metrics, kLabels);
  EXPECT_FALSE(slot.Demote(FallbackReason::kCompile, "no"));
  slot.Promote(TwoExecutables(), Verdict{}, Entry(0));
  EXPECT_TRUE(slot.Demote(FallbackReason::kRun, "broke"));
  EXPECT_EQ(slot.executable(0), nullptr);
  EXPECT_TRUE(slot.settled());
  EXPECT_EQ(slot.Read().detail, "run: broke");
  EXPECT_EQ(slot.Read().artifact, std::nullopt);
  EXPECT_EQ(StateMetric(metrics, "compiled"), 0);
  EXPECT_EQ(StateMetric(metrics, "eager"), 1);
}

TEST(BucketSlotTest, ARunningBatchKeepsADemotedExecutable) {
  MetricRegistry metrics;
  BucketSlot slot("batch=1", metrics, kLabels);
  auto executables = TwoExecutables();
  const std::weak_ptr<Executable> watched = executables[0];
  slot.Promote(std::move(executables), Verdict{}, Entry(0));
  std::shared_ptr<Executable> running = slot.executable(0);
  slot.Demote(FallbackReason::kRun, "broke");
  EXPECT_FALSE(watched.expired());
  running.reset();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace stoker
