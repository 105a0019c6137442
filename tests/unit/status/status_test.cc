#include "status/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "metrics/catalog.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_loader.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

const Labels kAuthor = {{"model", "author"}, {"version", "3"}};

class StatusTest : public ::testing::Test {
 protected:
  StatusTest() : started_(clock_.Now()) {}

  // A model that serves, without buckets.
  void AddAuthor() {
    std::filesystem::create_directories(folder_ / "author/3");
    std::filesystem::copy("tests/unit/program/testdata/author.pt2",
                          folder_ / "author/3/model.pt2");
    std::ofstream(folder_ / "author/model.yaml")
        << "compile: false\nbuckets: []\nmax_batch_size: 1\n";
  }
  void AddBroken() {
    std::filesystem::create_directories(folder_ / "broken/1");
    std::ofstream(folder_ / "broken/1/model.pt2") << "no archive";
  }

  // Returns when the server is ready.
  void Serve() {
    auto repository = ModelRepository::Open(folder_.path(), "");
    ASSERT_TRUE(repository.ok()) << repository.status();
    repository_ = *std::move(repository);
    manager_ = std::make_unique<ModelManager>(ModelManagerOptions(),
                                              *repository_, nullptr, nullptr,
                                              loader_, Clock::Real(), metrics_);
    manager_->OnReadinessChange([this] {
      const absl::MutexLock lock(&mu_);
      ready_ = manager_->ServerReady();
    });
    manager_->Start();
    {
      const absl::MutexLock lock(&mu_);
      ASSERT_TRUE(
          mu_.AwaitWithTimeout(absl::Condition(&ready_), absl::Seconds(30)));
    }
    reader_ = std::make_unique<StatusReader>(*manager_, metrics_, refusals_,
                                             clock_, started_);
  }
  void TearDown() override {
    if (manager_ != nullptr) manager_->Drain(MonotonicTime::InfiniteFuture());
  }

  void Answer(int requests, double seconds) {
    for (int i = 0; i < requests; ++i) {
      metrics_.Histogram(metric::kRequestSeconds, kAuthor).Observe(seconds);
    }
  }

  FakeClock clock_;
  const MonotonicTime started_;
  const TempFolder folder_;
  FakeLoader loader_{[](absl::Span<const Tensor>) { return RunResult(); }};
  MetricRegistry metrics_;
  RecentRefusals refusals_{clock_};
  std::unique_ptr<ModelRepository> repository_;
  std::unique_ptr<ModelManager> manager_;
  std::unique_ptr<StatusReader> reader_;
  absl::Mutex mu_;
  bool ready_ ABSL_GUARDED_BY(mu_) = false;
};

TEST_F(StatusTest, OfAnEmptyServer) {
  Serve();
  clock_.Advance(absl::Seconds(5));
  const Status status = reader_->Read();
  EXPECT_TRUE(status.server.ready);
  EXPECT_EQ(status.server.uptime, absl::Seconds(5));
  EXPECT_THAT(status.models, SizeIs(0));
  EXPECT_THAT(status.refusals, SizeIs(0));
  EXPECT_FALSE(status.cache.writable);
}

TEST_F(StatusTest, OfVersionsThatServeAndFail) {
  AddAuthor();
  AddBroken();
  Serve();
  auto count = [&](const char* outcome, double amount) {
    Labels labels = kAuthor;
    labels["outcome"] = outcome;
    metrics_.Counter(metric::kRequests, labels).Add(amount);
  };
  count("ok", 7);
  count("internal", 1);
  count("invalid_argument", 2);
  metrics_
      .Counter(metric::kRequests,
               {{"model", "author"}, {"version", "4"}, {"outcome", "ok"}})
      .Add(100);
  refusals_.Add("cache", "621b6bbffda9", "checksum", "other bytes");
  const Status status = reader_->Read();
  ASSERT_THAT(status.models, SizeIs(2));
  EXPECT_EQ(status.models[0].model, "author:3");
  EXPECT_EQ(status.models[0].state, VersionState::kServing);
  EXPECT_TRUE(status.models[0].newest);
  EXPECT_EQ(status.models[0].answered, 7);
  EXPECT_EQ(status.models[0].failed, 3);
  EXPECT_EQ(status.models[1].model, "broken:1");
  EXPECT_EQ(status.models[1].state, VersionState::kFailed);
  EXPECT_THAT(status.models[1].reason, HasSubstr("model.pt2"));
  EXPECT_THAT(status.refusals, SizeIs(1));
}

TEST_F(StatusTest, OfTheCache) {
  Serve();
  auto lookups = [&](const char* layer, const char* result, double amount) {
    metrics_
        .Counter(metric::kCacheRequests, {{"layer", layer}, {"result", result}})
        .Add(amount);
  };
  lookups("upper", "hit", 4);
  lookups("lower", "hit", 2);
  lookups("lower", "damaged", 1);
  lookups("", "miss", 3);
  metrics_.Counter(metric::kCacheRejections, {{"reason", "open"}}).Add();
  metrics_.Gauge(metric::kCacheWritable).Set(1);
  const CacheStatus cache = reader_->Read().cache;
  EXPECT_TRUE(cache.writable);
  EXPECT_EQ(cache.upper_hits, 4);
  EXPECT_EQ(cache.lower_hits, 2);
  EXPECT_EQ(cache.misses, 3);
  EXPECT_EQ(cache.rejections, (std::map<std::string, int64_t>{{"open", 1}}));
}

TEST_F(StatusTest, RatesAreThoseOfTheLastMinuteOrSinceTheLastLook) {
  AddAuthor();
  Serve();
  clock_.Advance(absl::Seconds(10));
  Status now = reader_->Read();
  EXPECT_EQ(now.server.window, absl::Seconds(10));
  EXPECT_EQ(now.models[0].recent.per_second, 0);
  EXPECT_EQ(now.models[0].recent.p50, std::nullopt);

  // No look has a minute behind it: since the start.
  Answer(60, 0.02);
  clock_.Advance(absl::Seconds(20));
  now = reader_->Read();
  EXPECT_EQ(now.server.window, absl::Seconds(30));
  EXPECT_EQ(now.models[0].recent.per_second, 2);
  EXPECT_GT(*now.models[0].recent.p50, absl::Milliseconds(16));
  EXPECT_LE(*now.models[0].recent.p99, absl::Milliseconds(25));

  // Looks at 10 s and 30 s; at 95 s the one at 30 s is the newest of those that
  // are more than a minute old.
  Answer(130, 0.2);
  clock_.Advance(absl::Seconds(65));
  now = reader_->Read();
  EXPECT_EQ(now.server.window, absl::Seconds(65));
  EXPECT_EQ(now.models[0].recent.per_second, 2);
  EXPECT_GT(*now.models[0].recent.p50, absl::Milliseconds(160));

  // Nobody looked for an hour.
  clock_.Advance(absl::Hours(1));
  now = reader_->Read();
  EXPECT_EQ(now.server.window, absl::Hours(1));
  EXPECT_EQ(now.models[0].recent.per_second, 0);
  EXPECT_EQ(now.models[0].recent.p99, std::nullopt);
}

TEST(RecentSinceTest, CountsWhatCameSinceOrSinceItBeganAnew) {
  const double none = std::numeric_limits<double>::infinity();
  const std::map<double, double> before = {{0.1, 40}, {none, 50}};
  EXPECT_EQ(RecentSince(before, {{0.1, 60}, {none, 80}}, absl::Seconds(10))
                .per_second,
            3);
  // Unloaded and loaded again: its counts began anew.
  const RecentRequests anew =
      RecentSince(before, {{0.1, 20}, {none, 20}}, absl::Seconds(10));
  EXPECT_EQ(anew.per_second, 2);
  EXPECT_LE(*anew.p99, absl::Milliseconds(100));
  EXPECT_EQ(RecentSince({}, {}, absl::Seconds(10)).per_second, 0);
}

TEST_F(StatusTest, ManyMayLookAtOnce) {
  AddAuthor();
  Serve();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int k = 0; k < 20; ++k) {
        clock_.Advance(absl::Seconds(1));
        EXPECT_THAT(reader_->Read().models, SizeIs(1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace stoker
