// The metric series of a version end with it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "metrics/catalog.h"
#include "metrics/metrics.h"
#include "models/model_manager.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_loader.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

class VersionSeriesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    AddVersion(3);
    auto repository = ModelRepository::Open(folder_.path(), "");
    ASSERT_TRUE(repository.ok()) << repository.status();
    repository_ = *std::move(repository);
    ModelManagerOptions options;
    options.poll_interval = absl::Seconds(1);
    manager_ = std::make_unique<ModelManager>(
        options, *repository_, nullptr, nullptr, loader_, clock_, metrics_);
    manager_->OnReadinessChange([this] {
      absl::MutexLock lock(&mu_);
      ++looks_;
    });
    manager_->Start();
    // The state is counted before requests get the version.
    Await([this] { return manager_->Acquire("author", {.number = 3}).ok(); });
  }
  void TearDown() override {
    if (manager_ != nullptr) manager_->Drain(MonotonicTime::InfiniteFuture());
  }

  void AddVersion(int version) {
    const std::filesystem::path folder =
        folder_ / ("author/" + std::to_string(version));
    std::filesystem::create_directories(folder);
    std::filesystem::copy("tests/unit/program/testdata/author.pt2",
                          folder / "model.pt2");
    WriteYaml("");
  }
  void WriteYaml(const std::string& more) {
    std::ofstream(folder_ / "author/model.yaml")
        << "compile: false\nbuckets: []\nmax_batch_size: 1\n"
        << more;
  }
  double State(const std::string& state, const std::string& version) const {
    return MetricValue(metrics_, metric::kModelState.name,
                       {{"state", state}, {"version", version}});
  }
  bool HasSeriesOf(const std::string& what) const {
    return absl::StrContains(metrics_.Text(), what);
  }
  // Lets the repository be read again until that is so. What is loaded
  // meanwhile takes a thread's real time, and a hundred looks may take less.
  void Await(const std::function<bool()>& so) {
    const auto looked = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return looks_ != seen_;
    };
    const absl::Time limit = absl::Now() + absl::Seconds(30);
    while (!so() && absl::Now() < limit) {
      clock_.BlockUntilWaiters(1);
      clock_.Advance(absl::Seconds(1));
      absl::MutexLock lock(&mu_);
      ASSERT_TRUE(
          mu_.AwaitWithTimeout(absl::Condition(&looked), absl::Seconds(30)));
      seen_ = looks_;
    }
    ASSERT_TRUE(so());
  }

  FakeClock clock_;
  const TempFolder folder_;
  FakeLoader loader_{[](absl::Span<const Tensor>) { return RunResult(); }};
  MetricRegistry metrics_;
  std::unique_ptr<ModelRepository> repository_;
  std::unique_ptr<ModelManager> manager_;
  absl::Mutex mu_;
  int looks_ ABSL_GUARDED_BY(mu_) = 0;
  int seen_ ABSL_GUARDED_BY(mu_) = 0;
};

TEST_F(VersionSeriesTest, EndWhenItIsReplacedByTheNext) {
  EXPECT_TRUE(
      HasSeriesOf("stoker_queue_length{model=\"author\",version=\"3\""));
  std::filesystem::rename(folder_ / "author/3", folder_ / "author/4");
  Await([this] { return State("serving", "4") == 1; });
  Await([this] { return !HasSeriesOf("version=\"3\""); });
}

TEST_F(VersionSeriesTest, StayWhileARequestHoldsTheVersion) {
  std::optional<ModelHandle> handle =
      *manager_->Acquire("author", {.number = 3});
  std::filesystem::rename(folder_ / "author/3", folder_ / "author/4");
  Await([this] { return State("unloaded", "3") == 1; });
  Await([this] { return manager_->Index().size() == 1; });
  handle->stats().RecordFailure(absl::InternalError("late"), true,
                                absl::Seconds(1));
  EXPECT_EQ(MetricValue(metrics_, metric::kRequests.name,
                        {{"version", "3"}, {"outcome", "internal"}}),
            1);
  handle.reset();
  Await([this] { return !HasSeriesOf("version=\"3\""); });
}

TEST_F(VersionSeriesTest, StayForASuccessorOfTheSameNumber) {
  const ModelHandle before = *manager_->Acquire("author", {.number = 3});
  WriteYaml("instances: 2\n");
  Await([&] {
    const auto now = manager_->Acquire("author", {.number = 3});
    return now.ok() && !(*now == before) && manager_->Index().size() == 1;
  });
  EXPECT_EQ(State("serving", "3"), 1);
  EXPECT_TRUE(
      HasSeriesOf("stoker_queue_length{model=\"author\",version=\"3\""));
}

TEST_F(VersionSeriesTest, EndWhenNothingIsWantedAnyMore) {
  std::filesystem::remove_all(folder_ / "author");
  Await([this] { return !HasSeriesOf("author"); });
}

}  // namespace
}  // namespace stoker
