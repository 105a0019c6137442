// Versions that are unloaded in the middle of a run: nothing else waits for it.
#include "models/stopping_versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "metrics/catalog.h"
#include "models/lifecycle.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_executable.h"
#include "tests/fakes/fake_loader.h"
#include "tests/fakes/fake_repository.h"
#include "tests/unit/models/row_model.h"

namespace stoker {
namespace {

constexpr int64_t kForever = 7;  // rows

// Of programs whose runs of so many rows end when the test says so.
class HangingLoader : public TorchlessLoader {
 public:
  absl::StatusOr<std::shared_ptr<Executable>> OpenEager(
      const std::string& /*program*/,
      std::shared_ptr<WeightStore> /*weights*/) override {
    return std::make_shared<FakeExecutable>(
        "eager", [this](absl::Span<const Tensor> inputs) {
          if (inputs[0].shape[0] == kForever) Hang();
          return AsTheyCame(inputs);
        });
  }
  absl::StatusOr<std::shared_ptr<Executable>> OpenAot(
      const std::string& /*entry_folder*/,
      std::shared_ptr<WeightStore> /*weights*/) override {
    return absl::UnimplementedError("no artifacts");
  }

  void AwaitRun() {
    const absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&runs_));
  }
  void EndRun() {
    const absl::MutexLock lock(&mu_);
    ended_ = true;
  }

 private:
  void Hang() {
    const absl::MutexLock lock(&mu_);
    runs_ = true;
    mu_.Await(absl::Condition(&ended_));
  }

  absl::Mutex mu_;
  bool runs_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

std::shared_ptr<ModelSpec> Spec(const std::string& model, int64_t version) {
  auto spec = RowModel({});
  spec->name = model;
  spec->version = version;
  spec->compile.enabled = false;
  return spec;
}

class StoppingVersionsTest : public ::testing::Test {
 protected:
  StoppingVersionsTest() {
    deps_.clock = &clock_;
    deps_.verify_promotions = false;
    deps_.machine = "here";
    repository_.Put(Spec("a", 1));
    repository_.Put(Spec("b", 1));
    lifecycle_ = std::make_unique<Lifecycle>(
        LifecycleOptions{.explicit_control = true, .load_models = {"*"}},
        repository_, loader_, deps_, metrics_, published_, events_);
    Step(clock_.Now());
    while (!Serves("a") || !Serves("b")) Step(MonotonicTime::InfiniteFuture());
  }
  ~StoppingVersionsTest() override {
    loader_.EndRun();
    lifecycle_->StopAll(MonotonicTime::InfinitePast());
  }

  void Step(MonotonicTime until) {
    for (const auto& event : events_->Await(clock_, until)) event();
    lifecycle_->Step();
  }
  bool Serves(const std::string& model) const {
    return published_.Acquire(model, 0).ok();
  }
  double Aside() const {
    return MetricValue(metrics_, metric::kVersionsAside.name, {});
  }
  // The model's version has a run that doesn't end, and is unloaded; its drain
  // has an end, and so has the wait for it.
  void UnloadWhileItRuns(const std::string& model) {
    asks_ = Thread("asks", [version = *published_.Acquire(model, 0)] {
      EXPECT_TRUE(AskForRows(*version, kForever).ok());
    });
    loader_.AwaitRun();
    lifecycle_->UnloadModel(
        model, [](const absl::Status& status) { EXPECT_TRUE(status.ok()); });
    Step(clock_.Now());
    clock_.Advance(kReplacedVersionDrain);
    Thread time("time", [this] {
      clock_.BlockUntilWaiters(waiting_ + 1);
      clock_.Advance(kStopWait);
    });
    Step(clock_.Now());
  }

  FakeClock clock_;
  MetricRegistry metrics_;
  FakeRepository repository_;
  HangingLoader loader_;
  VersionDeps deps_;
  PublishedVersions published_;
  const std::shared_ptr<LifecycleEvents> events_ =
      std::make_shared<LifecycleEvents>();
  std::unique_ptr<Lifecycle> lifecycle_;
  int waiting_ = 2;  // timers of the two batchers
  Thread asks_;
};

TEST_F(StoppingVersionsTest, OneThatRunsOnGoesAside) {
  EXPECT_EQ(Aside(), 0);
  UnloadWhileItRuns("a");
  EXPECT_EQ(Aside(), 1);
  // It is gone for everybody, and what else there is goes on.
  EXPECT_EQ(published_.Lines().size(), 1U);
  EXPECT_TRUE(AskForRows(**published_.Acquire("b", 0), 2).ok());
  bool loaded = false;
  lifecycle_->LoadModel("a", std::nullopt, [&](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    loaded = true;
  });
  while (!loaded) Step(clock_.Now());
  EXPECT_TRUE(AskForRows(**published_.Acquire("a", 0), 2).ok());
  // Until its run ends.
  loader_.EndRun();
  asks_.Join();
  while (Aside() != 0) Step(MonotonicTime::InfiniteFuture());
}

TEST_F(StoppingVersionsTest, TheEndWaitsForIt) {
  UnloadWhileItRuns("a");
  EXPECT_EQ(Aside(), 1);
  loader_.EndRun();
  lifecycle_->StopAll(MonotonicTime::InfinitePast());
  EXPECT_EQ(Aside(), 0);
}

}  // namespace
}  // namespace stoker
