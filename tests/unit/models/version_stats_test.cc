#include "models/version_stats.h"

#include "gtest/gtest.h"
#include "metrics/catalog.h"

namespace stoker {
namespace {

const Labels kLabels = {{"model", "m"}, {"version", "1"}};

InferResult Answer(int bucket, std::string_view tier) {
  InferResult result;
  result.bucket = bucket;
  result.tier = tier;
  result.queue = absl::Microseconds(5);
  result.assemble = absl::Microseconds(1);
  result.run = absl::Microseconds(100);
  result.split = absl::Microseconds(2);
  return result;
}

TEST(VersionStatsTest, CountsRequestsPerRequestAndInferencesPerRow) {
  MetricRegistry metrics;
  VersionStats stats(metrics, kLabels, {"batch=1", "batch=8"});
  stats.RecordSuccess(Answer(1, "aot"), 3, absl::Microseconds(120),
                      absl::FromUnixMillis(77));
  stats.RecordSuccess(Answer(0, "eager"), 1, absl::Microseconds(120),
                      absl::FromUnixMillis(78));
  stats.RecordFailure(absl::InvalidArgumentError("x"), false,
                      absl::Microseconds(9));
  stats.RecordBatch(4, absl::Microseconds(1), absl::Microseconds(100),
                    absl::Microseconds(2));

  const StatsSnapshot now = stats.Snapshot();
  EXPECT_EQ(now.inference_count, 4u);
  EXPECT_EQ(now.execution_count, 1u);
  EXPECT_EQ(now.last_inference_ms, 78);
  EXPECT_EQ(now.success.count, 2u);
  EXPECT_EQ(now.success.ns, 240'000u);
  EXPECT_EQ(now.queue.ns, 10'000u);
  EXPECT_EQ(now.compute_infer.count, 2u);
  EXPECT_EQ(now.fail.count, 1u);
  ASSERT_EQ(now.batches.count(4), 1u);
  EXPECT_EQ(now.batches.at(4).compute_infer.ns, 100'000u);
}

TEST(VersionStatsTest, MetricsSayOutcomeTierAndBucket) {
  MetricRegistry metrics;
  VersionStats stats(metrics, kLabels, {"batch=1"});
  stats.RecordSuccess(Answer(0, "aot"), 1, absl::Microseconds(1),
                      absl::UnixEpoch());
  stats.RecordSuccess(Answer(-1, "eager"), 1, absl::Microseconds(1),
                      absl::UnixEpoch());
  stats.RecordFailure(absl::UnavailableError("x"), true, absl::Microseconds(9));
  auto requests = [&](Labels labels) {
    return MetricValue(metrics, metric::kRequests.name, labels);
  };
  auto tiers = [&](Labels labels) {
    return MetricValue(metrics, metric::kTierRequests.name, labels);
  };
  EXPECT_EQ(requests({{"outcome", "ok"}}), 2);
  EXPECT_EQ(requests({{"outcome", "unavailable"}}), 1);
  EXPECT_EQ(tiers({{"tier", "aot"}, {"bucket", "batch=1"}}), 1);
  EXPECT_EQ(tiers({{"tier", "eager"}, {"bucket", "none"}}), 1);
  EXPECT_EQ(tiers({{"tier", "eager"}, {"bucket", "batch=1"}}), 0);
}

TEST(VersionStatsTest, EachFailureHasOneReason) {
  MetricRegistry metrics;
  VersionStats stats(metrics, kLabels, {});
  const auto fail = [&](const absl::Status& status, bool queued) {
    stats.RecordFailure(status, queued, absl::Microseconds(1));
  };
  fail(absl::UnavailableError("the queue is full"), false);
  fail(absl::UnavailableError("waited too long"), true);
  fail(absl::DeadlineExceededError("waited too long"), true);
  fail(absl::CancelledError("the client has gone"), true);
  fail(absl::InternalError("the run failed"), true);
  fail(absl::InvalidArgumentError("a row that the program refuses"), true);
  fail(absl::InvalidArgumentError("no such input"), false);

  const StatsSnapshot now = stats.Snapshot();
  EXPECT_EQ(now.fail.count, 7u);
  const std::array<uint64_t, 4> expected = {3, 1, 2, 1};
  EXPECT_EQ(now.fail_by_reason, expected);  // as kFailureReasons
}

}  // namespace
}  // namespace stoker
