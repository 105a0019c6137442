// Whose memory on a GPU goes to a load that finds none, on a clock that only
// moves when a test says so. The test is the lifecycle thread; the GPU has room
// for so many programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "metrics/catalog.h"
#include "models/lifecycle.h"
#include "models/load_backoff.h"
#include "models/model_manager.h"
#include "models/model_version.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_program_loader.h"
#include "tests/fakes/fake_repository.h"
#include "tests/unit/models/row_model.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using enum VersionState;

constexpr absl::Duration kPoll = absl::Seconds(1);
constexpr absl::Duration kIdle = absl::Minutes(10);
constexpr int64_t kBytes = 100;

std::shared_ptr<ModelSpec> On(const std::string& device,
                              const std::string& model) {
  auto spec = RowModel({{{8}}});
  spec->name = model;
  spec->program_path = "/models/" + model + "/1/model.pt2";
  spec->devices = {*ParseDevice(device)};
  spec->weights_bytes = kBytes;
  return spec;
}

class NarrowGpu : public FakeProgramLoader {
 public:
  explicit NarrowGpu(int programs) : most_(programs) {}

  absl::StatusOr<std::shared_ptr<Executable>> OpenEager(
      const std::string& program, std::shared_ptr<WeightStore> weights) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    if (OpenLocked() >= most_) return absl::ResourceExhaustedError("no room");
    auto opened = FakeProgramLoader::OpenEager(program, std::move(weights));
    if (opened.ok()) open_.push_back(*opened);
    return opened;
  }
  bool CouldHold(int64_t bytes, int64_t freed) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    return bytes <= (most_ - OpenLocked()) * kBytes + freed;
  }

 private:
  int OpenLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    open_.remove_if([](const auto& one) { return one.expired(); });
    return static_cast<int>(open_.size());
  }

  const int most_;
  absl::Mutex mu_;
  std::list<std::weak_ptr<Executable>> open_ ABSL_GUARDED_BY(mu_);
};

// The first has room for two programs, the second for one.
class TwoGpus : public Gpus {
 public:
  const std::vector<GpuFacts>& facts() const override { return facts_; }
  int64_t FreeBytes(int /*index*/) override { return 0; }
  absl::StatusOr<ExecutableLoader*> Loader(int index) override {
    return index == 0 ? &first_ : &second_;
  }

 private:
  const std::vector<GpuFacts> facts_ = {{.index = 0, .name = "H100"},
                                        {.index = 1, .name = "H100"}};
  NarrowGpu first_{2};
  NarrowGpu second_{1};
};

class IdleVersionsTest : public ::testing::Test {
 protected:
  IdleVersionsTest() { Start(kIdle); }
  ~IdleVersionsTest() override {
    lifecycle_->StopAll(MonotonicTime::InfinitePast());
  }

  void Start(absl::Duration idle_after) {
    if (lifecycle_ != nullptr) {
      lifecycle_->StopAll(MonotonicTime::InfinitePast());
    }
    VersionDeps deps;
    deps.clock = &clock_;
    deps.verify_promotions = false;
    deps.machine = "here";
    lifecycle_ = std::make_unique<Lifecycle>(
        LifecycleOptions{
            .poll_interval = kPoll,
            .idle_after = idle_after,
            .gpus = [this]() -> absl::StatusOr<Gpus*> { return &gpus_; }},
        repository_, cpu_, deps, metrics_, published_, events_);
  }

  void Step(MonotonicTime until) {
    for (const auto& event : events_->Await(clock_, until)) event();
    lifecycle_->Step();
  }
  void StepAfter(absl::Duration duration) {
    clock_.Advance(duration);
    Step(clock_.Now());
  }
  void StepUntil(const std::string& model, VersionState state) {
    while (StateOf(model) != state) Step(MonotonicTime::InfiniteFuture());
  }
  void Put(std::shared_ptr<ModelSpec> spec) {
    repository_.Put(std::move(spec));
    StepAfter(kPoll);
  }
  void Serve(const std::string& model, const std::string& device = "cuda:0") {
    Put(On(device, model));
    StepUntil(model, kServing);
  }
  void Ask(const std::string& model) {
    const auto held = published_.Acquire(model, 0);
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_TRUE(AskForRows(**held, 3).ok());
  }
  VersionStatus LineOf(const std::string& model) const {
    for (const auto& [line, running] : published_.Lines()) {
      if (line.model == model) return line;
    }
    return {};
  }
  VersionState StateOf(const std::string& model) const {
    return LineOf(model).state;
  }
  double Unloads(const char* device) const {
    return MetricValue(metrics_, metric::kIdleUnloads.name,
                       {{"device", device}});
  }

  FakeClock clock_;
  MetricRegistry metrics_;
  FakeRepository repository_;
  FakeProgramLoader cpu_;
  TwoGpus gpus_;
  PublishedVersions published_;
  const std::shared_ptr<LifecycleEvents> events_ =
      std::make_shared<LifecycleEvents>();
  std::unique_ptr<Lifecycle> lifecycle_;
};

TEST_F(IdleVersionsTest, WhoWasAskedLongestAgoGoesAndComesBackWhenAsked) {
  Serve("elsewhere", "cuda:1");
  Serve("a");
  Serve("b");
  StepAfter(kIdle / 2);
  Ask("a");
  StepAfter(kIdle / 2);
  // Is b's turn: a was asked for, and what is elsewhere has none of the memory.
  Put(On("cuda:0", "c"));
  StepUntil("c", kFailed);
  EXPECT_THAT(LineOf("c").reason, HasSubstr("tried again in 1s"));
  StepUntil("b", kResting);
  StepAfter(kMinLoadBackoff);
  StepUntil("c", kServing);
  EXPECT_EQ(StateOf("a"), kServing);
  EXPECT_EQ(StateOf("elsewhere"), kServing);
  EXPECT_EQ(Unloads("cuda:0"), 1);
  EXPECT_TRUE(published_.ready());
  // Nothing brings it back but a request, which waits for it.
  EXPECT_TRUE(LineOf("b").ready());
  EXPECT_THAT(LineOf("b").reason,
              AllOf(HasSubstr("its memory on cuda:0 was wanted for c:1"),
                    HasSubstr("a request has it loaded again")));
  StepAfter(kIdle);
  EXPECT_EQ(StateOf("b"), kResting);
  Ask("c");
  ModelHandle resting(*published_.Acquire("b", 0));
  const auto asked = AskLater(resting, 3);
  Step(clock_.Now());
  StepUntil("b", kFailed);
  StepUntil("a", kResting);
  StepAfter(kMinLoadBackoff);
  StepUntil("b", kServing);
  EXPECT_TRUE(asked->Await().ok());
  Ask("b");
  EXPECT_EQ(StateOf("c"), kServing);
  EXPECT_EQ(Unloads("cuda:0"), 2);
}

TEST_F(IdleVersionsTest, AsManyGoAsItTakes) {
  Serve("a");
  Serve("b");
  StepAfter(kIdle);
  auto large = On("cuda:0", "c");
  large->weights_bytes = 2 * kBytes;
  Put(std::move(large));
  StepUntil("a", kResting);
  StepUntil("b", kResting);
  StepAfter(kMinLoadBackoff);
  StepUntil("c", kServing);
}

TEST_F(IdleVersionsTest, NobodyGoesWhereThatWouldNotDo) {
  Serve("a");
  Serve("b");
  StepAfter(kIdle);
  auto huge = On("cuda:0", "c");
  huge->weights_bytes = 3 * kBytes;
  Put(std::move(huge));
  StepUntil("c", kFailed);
  for (int i = 0; i < 5; ++i) StepAfter(kMaxLoadBackoff);
  EXPECT_EQ(StateOf("a"), kServing);
  EXPECT_EQ(StateOf("b"), kServing);
  EXPECT_EQ(Unloads("cuda:0"), 0);
}

TEST_F(IdleVersionsTest, WhoIsAskedForStays) {
  Serve("a");
  Serve("b");
  Put(On("cuda:0", "c"));
  StepUntil("c", kFailed);
  for (int i = 0; i < 15; ++i) {
    StepAfter(kMaxLoadBackoff);
    Ask("a");
    Ask("b");
    EXPECT_NE(StateOf("c"), kServing);
  }
  EXPECT_EQ(Unloads("cuda:0"), 0);
}

TEST_F(IdleVersionsTest, NobodyGoesWhereTheOperatorSaysSo) {
  Start(absl::InfiniteDuration());
  Serve("a");
  Serve("b");
  StepAfter(100 * kIdle);
  Put(On("cuda:0", "c"));
  StepUntil("c", kFailed);
  StepAfter(kMaxLoadBackoff);
  EXPECT_EQ(StateOf("a"), kServing);
  EXPECT_EQ(StateOf("b"), kServing);
}

TEST_F(IdleVersionsTest, OneThatRestsFollowsTheRepository) {
  Serve("a", "cuda:1");
  StepAfter(kIdle);
  Put(On("cuda:1", "b"));
  StepUntil("a", kResting);
  StepAfter(kMinLoadBackoff);
  StepUntil("b", kServing);
  // Other files are no version that rests.
  Put(On("cuda:0", "a"));
  StepUntil("a", kServing);
  EXPECT_FALSE(LineOf("a").rests);
  StepAfter(kIdle);
  Put(On("cuda:1", "c"));
  StepUntil("b", kResting);
  repository_.Remove("b", 1);
  StepAfter(kPoll);
  EXPECT_EQ(LineOf("b").model, "");
  StepUntil("c", kServing);
}

}  // namespace
}  // namespace stoker
