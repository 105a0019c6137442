#include "metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "metrics/catalog.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

Labels SomeLabels(const MetricDef& def) {
  const std::vector<std::string> names =
      absl::StrSplit(std::string(def.labels), ',', absl::SkipEmpty());
  Labels labels;
  for (const std::string& name : names) {
    labels[name] = absl::StrCat("some \"", name, "\"\n\\");
  }
  return labels;
}

void TouchEverything(MetricRegistry& registry) {
  for (const MetricDef& def : metric::All()) {
    switch (def.kind) {
      case MetricKind::kCounter:
        registry.Counter(def, SomeLabels(def)).Add();
        break;
      case MetricKind::kGauge:
        registry.Gauge(def, SomeLabels(def)).Set(1.5);
        break;
      case MetricKind::kHistogram:
        registry.Histogram(def, SomeLabels(def)).Observe(0.01);
        break;
    }
  }
}

TEST(MetricsTest, SameDefinitionAndLabelsGiveTheSameMetric) {
  MetricRegistry registry;
  const Labels labels = {{"model", "m"}, {"version", "1"}, {"outcome", "ok"}};
  registry.Counter(metric::kRequests, labels).Add();
  registry.Counter(metric::kRequests, labels).Add(2);
  EXPECT_EQ(MetricValue(registry, "stoker_requests_total", labels), 3);
}

TEST(MetricsTest, MetricValueSumsOverTheLabelsLeftOut) {
  MetricRegistry registry;
  for (const char* outcome : {"ok", "internal"}) {
    for (const char* model : {"a", "b"}) {
      registry
          .Counter(metric::kRequests,
                   {{"model", model}, {"version", "1"}, {"outcome", outcome}})
          .Add(outcome[0] == 'o' ? 10 : 1);
    }
  }
  EXPECT_EQ(MetricValue(registry, "stoker_requests_total"), 22);
  EXPECT_EQ(MetricValue(registry, "stoker_requests_total", {{"outcome", "ok"}}),
            20);
  EXPECT_EQ(MetricValue(registry, "stoker_requests_total",
                        {{"outcome", "ok"}, {"model", "c"}}),
            0);
  EXPECT_EQ(MetricValue(registry, "no_such_metric"), 0);
}

TEST(MetricsTest, GaugesAndHistogramsReadBack) {
  MetricRegistry registry;
  const Labels labels = {{"model", "m"}, {"version", "1"}};
  Gauge gauge = registry.Gauge(metric::kQueueLength, labels);
  gauge.Set(5);
  gauge.Add(-2);
  EXPECT_EQ(MetricValue(registry, "stoker_queue_length"), 3);

  Histogram histogram = registry.Histogram(metric::kQueueSeconds, labels);
  histogram.Observe(0.5);
  histogram.Observe(100);
  EXPECT_EQ(MetricValue(registry, "stoker_queue_seconds"), 2);
}

TEST(MetricsTest, LatencyEdgesHoldTheWholeDecades) {
  MetricRegistry registry;
  registry
      .Histogram(metric::kRequestSeconds, {{"model", "m"}, {"version", "1"}})
      .Observe(0.0009);
  const std::string text = registry.Text();
  for (const char* edge : {"5e-05", "0.001", "0.01", "0.1", "1", "10"}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("le=\"", edge, "\"}")));
  }
  EXPECT_THAT(text, HasSubstr("le=\"0.001\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("le=\"0.00061\"} 0\n"));
}

TEST(MetricsTest, OtherEdgesStartAndEndWhereDocumented) {
  MetricRegistry registry;
  TouchEverything(registry);
  const std::vector<std::string> lines = absl::StrSplit(registry.Text(), '\n');
  auto edges = [&](absl::string_view name) {
    std::vector<std::string> found;
    for (const std::string& line : lines) {
      if (!absl::StartsWith(line, absl::StrCat(name, "_bucket{"))) continue;
      const size_t at = line.rfind("le=\"") + 4;
      found.push_back(line.substr(at, line.find('"', at) - at));
    }
    return found;
  };
  const auto compile = edges("stoker_compile_seconds");
  EXPECT_EQ(compile.front(), "0.25");
  EXPECT_EQ(compile[compile.size() - 2], "3600");
  const auto open = edges("stoker_artifact_open_seconds");
  EXPECT_EQ(open.front(), "0.0005");
  EXPECT_EQ(open[open.size() - 2], "60");
  const auto batch = edges("stoker_batch_rows");
  EXPECT_EQ(batch.size(), 14u);
  EXPECT_EQ(batch.front(), "1");
  EXPECT_EQ(batch[batch.size() - 2], "4096");
  EXPECT_EQ(edges("stoker_queue_seconds").size(), 28u);
}

TEST(MetricsTest, CatalogueNamesAreUniqueAndFollowTheRules) {
  std::set<std::string> names;
  for (const MetricDef& def : metric::All()) {
    const std::string name(def.name);
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_THAT(name, StartsWith("stoker_"));
    EXPECT_EQ(absl::EndsWith(name, "_total"), def.kind == MetricKind::kCounter)
        << name;
    EXPECT_EQ(def.edges != Edges::kNone, def.kind == MetricKind::kHistogram)
        << name;
    EXPECT_FALSE(def.help.empty()) << name;
  }
}

TEST(MetricsTest, TextHoldsEveryMetricOnceAndEscapesLabels) {
  MetricRegistry registry;
  TouchEverything(registry);
  const std::string text = registry.Text();
  for (const MetricDef& def : metric::All()) {
    const std::string type =
        absl::StrCat("# TYPE ", std::string(def.name), " ");
    EXPECT_THAT(text, HasSubstr(type));
    EXPECT_EQ(text.find(type), text.rfind(type)) << def.name;
  }
  EXPECT_THAT(text, HasSubstr(R"(model="some \"model\"\n\\")"));
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    EXPECT_TRUE(absl::StartsWith(line, "stoker_") ||
                absl::StartsWith(line, "# "))
        << line;
  }
  EXPECT_EQ(text.back(), '\n');
}

const Labels kVersion = {{"model", "m"}, {"version", "1"}};

Labels Of(const char* name, const char* value) {
  Labels labels = kVersion;
  labels[name] = value;
  return labels;
}

TEST(MetricScopeTest, SeriesEndWithTheirScope) {
  MetricRegistry registry;
  {
    MetricScope scope(registry, kVersion);
    scope.Counter(metric::kRequests, Of("outcome", "ok")).Add(3);
    scope.Gauge(metric::kQueueLength, kVersion).Set(2);
    scope.Histogram(metric::kQueueSeconds, kVersion).Observe(0.1);
    EXPECT_THAT(registry.Text(), HasSubstr("version=\"1\""));
  }
  EXPECT_THAT(registry.Text(), Not(HasSubstr("version=\"1\"")));
  EXPECT_EQ(MetricValue(registry, "stoker_requests_total"), 0);
  // What comes after them begins anew.
  MetricScope next(registry, kVersion);
  next.Counter(metric::kRequests, Of("outcome", "ok")).Add();
  EXPECT_EQ(MetricValue(registry, "stoker_requests_total"), 1);
}

TEST(MetricScopeTest, WhatASuccessorOfTheSameLabelsUsesStays) {
  MetricRegistry registry;
  auto first = std::make_unique<MetricScope>(registry, kVersion);
  first->Counter(metric::kRequests, Of("outcome", "ok")).Add(3);
  first->Gauge(metric::kSpeedup, Of("bucket", "batch=1")).Set(2);
  MetricScope second(registry, kVersion);
  Counter answered = second.Counter(metric::kRequests, Of("outcome", "ok"));
  second.Gauge(metric::kSpeedup, Of("bucket", "batch=8")).Set(3);
  first.reset();
  answered.Add();
  EXPECT_EQ(MetricValue(registry, "stoker_requests_total"), 4);
  EXPECT_EQ(MetricValue(registry, "stoker_speedup_ratio"), 3);
  EXPECT_THAT(registry.Text(), Not(HasSubstr("batch=1\"")));
}

TEST(MetricScopeTest, WhatDoesNotCarryTheLabelsIsTheRegistrys) {
  MetricRegistry registry;
  {
    MetricScope scope(registry, kVersion);
    scope.Counter(metric::kCompilesAfterReady).Add();
    scope
        .Counter(metric::kRequests,
                 {{"model", "m"}, {"version", "2"}, {"outcome", "ok"}})
        .Add();
  }
  EXPECT_EQ(MetricValue(registry, "stoker_compiles_after_ready_total"), 1);
  EXPECT_EQ(MetricValue(registry, "stoker_requests_total"), 1);
}

TEST(MetricScopeTest, WhatTheRegistryGaveOutStays) {
  MetricRegistry registry;
  Gauge before = registry.Gauge(metric::kQueueLength, kVersion);
  std::optional<Gauge> after;
  {
    MetricScope scope(registry, kVersion);
    scope.Gauge(metric::kQueueLength, kVersion).Set(1);
    scope.Gauge(metric::kWeightsBytes, kVersion).Set(1);
    after = registry.Gauge(metric::kWeightsBytes, kVersion);
  }
  before.Add(1);
  after->Add(1);
  EXPECT_EQ(MetricValue(registry, "stoker_queue_length"), 2);
  EXPECT_EQ(MetricValue(registry, "stoker_weights_bytes"), 2);
}

TEST(MetricScopeTest, ScopesComeAndGoWhileOthersCountAndRead) {
  MetricRegistry registry;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&registry] {
      for (int k = 0; k < 200; ++k) {
        MetricScope scope(registry, kVersion);
        scope.Gauge(metric::kQueueLength, kVersion).Add(1);
        scope.Counter(metric::kRequests, Of("outcome", "ok")).Add();
        if (k % 50 == 0) registry.Text();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(MetricValue(registry, "stoker_requests_total"), 0);
}

TEST(MetricSnapshotTest, HoldsValuesByNameAndLabels) {
  MetricRegistry registry;
  registry.Counter(metric::kCacheRejections, {{"reason", "open"}}).Add(2);
  registry.Counter(metric::kCacheRejections, {{"reason", "checksum"}}).Add();
  Histogram rows = registry.Histogram(metric::kBatchRows, kVersion);
  rows.Observe(3);
  rows.Observe(100000);
  const MetricSnapshot values = registry.Read();
  registry.Counter(metric::kCacheRejections, {{"reason", "open"}}).Add();
  EXPECT_EQ(values.Sum(metric::kCacheRejections.name), 3);
  EXPECT_EQ(values.Sum(metric::kCacheRejections.name, {{"reason", "open"}}), 2);
  EXPECT_THAT(values.Find(metric::kCacheRejections.name), SizeIs(2));
  EXPECT_EQ(values.Sum(metric::kBatchRows.name), 2);
  const auto buckets = values.Buckets(metric::kBatchRows.name, kVersion);
  EXPECT_EQ(buckets.at(2), 0);
  EXPECT_EQ(buckets.at(4), 1);
  EXPECT_TRUE(std::isinf(buckets.rbegin()->first));
  EXPECT_EQ(buckets.rbegin()->second, 2);
  EXPECT_THAT(values.Buckets("no_such_metric"), SizeIs(0));
}

#ifdef STOKER_PROMTOOL
TEST(MetricsTest, PromtoolFindsNoFault) {
  MetricRegistry registry;
  TouchEverything(registry);
  const std::string path =
      absl::StrCat(testing::TempDir(), "/metrics_test.", getpid(), ".txt");
  FILE* file = fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  fputs(registry.Text().c_str(), file);
  fclose(file);

  FILE* tool =
      popen(absl::StrCat(STOKER_PROMTOOL, " check metrics 2>&1 < '", path, "'")
                .c_str(),
            "r");
  ASSERT_NE(tool, nullptr);
  std::string output;
  char buffer[1024];
  while (fgets(buffer, sizeof(buffer), tool) != nullptr) output += buffer;
  const int status = pclose(tool);
  unlink(path.c_str());
  EXPECT_EQ(output, "");
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

TEST(MetricsTest, ManyThreadsMayTouchOneMetric) {
  MetricRegistry registry;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&registry] {
      for (int k = 0; k < 500; ++k) {
        registry.Counter(metric::kCompilesAfterReady).Add();
        if (k % 100 == 0) registry.Text();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(MetricValue(registry, "stoker_compiles_after_ready_total"), 2000);
}

}  // namespace
}  // namespace stoker
