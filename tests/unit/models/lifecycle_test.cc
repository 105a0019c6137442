// The life of versions, on a clock that only moves when a test says so. The
// test is the lifecycle thread: nothing happens between its steps.
#include "models/lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "kernel_cache/kernel_cache.h"
#include "metrics/catalog.h"
#include "models/first_run.h"
#include "models/load_backoff.h"
#include "models/model_version.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_compiler.h"
#include "tests/fakes/fake_program_loader.h"
#include "tests/fakes/fake_repository.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/models/row_model.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum VersionState;

constexpr absl::Duration kPoll = absl::Seconds(1);
constexpr absl::Duration kRebucket = absl::Hours(1);

std::shared_ptr<ModelSpec> Rows(int64_t version) {
  auto spec = RowModel({{{8}}});
  spec->version = version;
  spec->program_path = absl::StrCat("/models/rows/", version, "/model.pt2");
  return spec;
}

class LifecycleTest : public ::testing::Test {
 protected:
  ~LifecycleTest() override {
    if (lifecycle_ != nullptr)
      lifecycle_->StopAll(MonotonicTime::InfinitePast());
  }

  // Has artifacts compiled, and kept, by what `script` says.
  void Compile(FakeCompiler::Script script) {
    auto cache =
        KernelCache::Open({.root = folder_ / "cache"}, Files::Real(), metrics_);
    ASSERT_TRUE(cache.ok()) << cache.status();
    cache_ = *std::move(cache);
    compiler_ = std::make_unique<FakeCompiler>(std::move(script));
    deps_.cache = cache_.get();
    deps_.compiler = compiler_.get();
  }
  // Artifacts whose first run, in a child process, never ends. Returns when a
  // child has begun one.
  void HangInFirstRun() {
    Compile([](const CompileRequest&) { return std::nullopt; });
    for (const WarmupStep& step : MakeWarmupPlan(*Rows(1), {})) {
      ASSERT_TRUE(CommitArtifact(*cache_, step.request.key).ok());
    }
    const std::string begun = folder_ / "begun";
    ASSERT_EQ(mkfifo(begun.c_str(), 0600), 0);
    first_run_ = std::make_unique<FirstRun>(
        FirstRun::Options{
            .argv = {"/bin/sh", "-c", "echo > " + begun + "; exec sleep 600"},
            .machine = "here"},
        cache_->facts());
    deps_.first_run = first_run_.get();
    repository_.Put(Rows(1));
    Start();
    Step();
    std::ifstream(begun).get();
  }
  static std::optional<absl::StatusOr<CacheEntry>> Never(
      const CompileRequest& /*request*/) {
    return std::nullopt;
  }

  void Start() {
    deps_.clock = &clock_;
    deps_.verify_promotions = false;
    deps_.machine = "here";
    lifecycle_ = std::make_unique<Lifecycle>(
        LifecycleOptions{.poll_interval = kPoll,
                         .rebucket_interval = kRebucket},
        repository_, loader_, deps_, metrics_, published_, events_);
  }

  // One turn of the lifecycle thread.
  void Step() { Step(clock_.Now()); }
  void Poll() {
    clock_.Advance(kPoll);
    Step();
  }
  // Waits for what other threads do.
  void StepUntil(const std::function<bool()>& done) {
    while (!done()) Step(MonotonicTime::InfiniteFuture());
  }
  void StepUntil(int64_t version, VersionState state) {
    StepUntil([&] {
      return !States(version).empty() && States(version).back() == state;
    });
  }

  // Of all objects with this version, the oldest first.
  std::vector<VersionState> States(int64_t version) const {
    std::vector<VersionState> states;
    for (const auto& [line, running] : published_.Lines()) {
      if (line.version == version) states.push_back(line.state);
    }
    return states;
  }
  std::string ReasonOf(int64_t version) const {
    for (const auto& [line, running] : published_.Lines()) {
      if (line.version == version) return line.reason;
    }
    return "";
  }
  std::shared_ptr<ModelVersion> Acquire(int64_t version = 0) const {
    auto held = published_.Acquire("rows", version);
    EXPECT_TRUE(held.ok()) << held.status();
    return held.ok() ? held->running : nullptr;
  }
  absl::StatusCode AcquireError(int64_t version) const {
    return published_.Acquire("rows", version).status().code();
  }
  // Versions that the metrics have in this state.
  double InState(const char* state) const {
    return MetricValue(metrics_, metric::kModelState.name, {{"state", state}});
  }

  const TempFolder folder_{TempFolder::Where::kMemory};
  FakeClock clock_;
  MetricRegistry metrics_;
  FakeRepository repository_;
  FakeProgramLoader loader_;
  std::unique_ptr<KernelCache> cache_;
  std::unique_ptr<FakeCompiler> compiler_;
  std::unique_ptr<FirstRun> first_run_;
  VersionDeps deps_;
  PublishedVersions published_;
  const std::shared_ptr<LifecycleEvents> events_ =
      std::make_shared<LifecycleEvents>();
  std::unique_ptr<Lifecycle> lifecycle_;

 private:
  void Step(MonotonicTime until) {
    for (const auto& event : events_->Await(clock_, until)) event();
    lifecycle_->Step();
  }
};

TEST_F(LifecycleTest, ServesWhatTheRepositoryHas) {
  repository_.Put(Rows(1));
  Start();
  EXPECT_FALSE(published_.ready());
  Step();
  EXPECT_THAT(States(1), ElementsAre(kLoading));
  EXPECT_EQ(AcquireError(1), absl::StatusCode::kUnavailable);
  StepUntil(1, kServing);
  EXPECT_TRUE(published_.ready());
  EXPECT_TRUE(AskForRows(*Acquire(1), 3).ok());
  EXPECT_EQ(Acquire(0), Acquire(1));
  EXPECT_EQ(AcquireError(2), absl::StatusCode::kNotFound);
  EXPECT_EQ(InState("serving"), 1);
  EXPECT_EQ(InState("loading"), 0);
}

TEST_F(LifecycleTest, AnEmptyRepositoryIsReady) {
  Start();
  Step();
  EXPECT_TRUE(published_.ready());
  EXPECT_EQ(AcquireError(0), absl::StatusCode::kNotFound);
}

TEST_F(LifecycleTest, AnUnreadableRepositoryIsNoWishToUnload) {
  repository_.Fail(absl::NotFoundError("no folder"));
  Start();
  Step();
  EXPECT_FALSE(published_.ready());  // nobody knows yet what is wanted
  repository_.Fail(absl::OkStatus());
  repository_.Put(Rows(1));
  Poll();
  StepUntil(1, kServing);
  repository_.Fail(absl::NotFoundError("no folder"));
  Poll();
  EXPECT_THAT(States(1), ElementsAre(kServing));
  EXPECT_TRUE(published_.ready());
}

TEST_F(LifecycleTest, WhatFailsToLoadHasAReasonAndTakesNoServerDown) {
  loader_.Refuse(Rows(1)->program_path);
  repository_.Put(Rows(1));
  Start();
  Step();
  StepUntil(1, kFailed);
  EXPECT_THAT(ReasonOf(1), HasSubstr("not a program"));
  const absl::Status status = published_.Acquire("rows", 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not a program"));
  EXPECT_EQ(InState("failed"), 1);
  EXPECT_FALSE(published_.ready());  // nothing serves
  Poll();
  EXPECT_THAT(States(1), ElementsAre(kFailed));  // the same file, the same end
}

TEST_F(LifecycleTest, WhatFailsForWantOfSomethingIsTriedAgain) {
  loader_.Refuse(Rows(1)->program_path,
                 absl::ResourceExhaustedError("no memory"));
  repository_.Put(Rows(1));
  Start();
  Step();
  StepUntil(1, kFailed);
  EXPECT_EQ(ReasonOf(1), "no memory; tried again in 1s");
  // Each time after twice as long, up to a limit.
  for (const absl::Duration backoff :
       {absl::Seconds(1), absl::Seconds(2), absl::Seconds(4), absl::Seconds(8),
        absl::Seconds(16), absl::Seconds(32), kMaxLoadBackoff}) {
    EXPECT_EQ(ReasonOf(1), absl::StrCat("no memory; tried again in ",
                                        absl::FormatDuration(backoff)));
    clock_.Advance(backoff - absl::Milliseconds(1));
    Step();
    EXPECT_THAT(States(1), ElementsAre(kFailed));
    clock_.Advance(absl::Milliseconds(1));
    Step();
    EXPECT_NE(States(1).back(), kFailed);
    StepUntil(1, kFailed);
    EXPECT_THAT(States(1), ElementsAre(kFailed));
  }
  EXPECT_EQ(ReasonOf(1), "no memory; tried again in 1m");
  loader_.Admit(Rows(1)->program_path);
  clock_.Advance(kMaxLoadBackoff);
  Step();
  StepUntil(1, kServing);
  EXPECT_THAT(States(1), ElementsAre(kServing));
  EXPECT_EQ(InState("failed"), 0);
}

TEST_F(LifecycleTest, WhatIsGoneIsNotTriedAgain) {
  loader_.Refuse(Rows(1)->program_path, absl::UnavailableError("later"));
  repository_.Put(Rows(1));
  Start();
  Step();
  StepUntil(1, kFailed);
  repository_.Remove("rows", 1);
  Poll();
  EXPECT_THAT(States(1), ElementsAre());
  clock_.Advance(kMaxLoadBackoff);
  Step();
  EXPECT_THAT(States(1), ElementsAre());
}

TEST_F(LifecycleTest, WhatIsMendedIsLoadedAgain) {
  repository_.PutBroken("rows", 1, "line 3: expected a number");
  Start();
  Step();
  EXPECT_THAT(States(1), ElementsAre(kFailed));
  EXPECT_EQ(ReasonOf(1), "line 3: expected a number");
  repository_.Put(Rows(1));
  Poll();
  StepUntil(1, kServing);
  EXPECT_THAT(States(1), ElementsAre(kServing));
  EXPECT_EQ(InState("failed"), 0);
  EXPECT_TRUE(published_.ready());
}

TEST_F(LifecycleTest, AVersionThatComesServesBeforeTheOldOneGoes) {
  repository_.Put(Rows(1));
  Start();
  Step();
  StepUntil(1, kServing);
  repository_.Put(Rows(2));
  repository_.Remove("rows", 1);
  Poll();
  EXPECT_THAT(States(1), ElementsAre(kServing));
  EXPECT_EQ(Acquire()->spec().version, 1);
  EXPECT_TRUE(published_.ready());
  StepUntil(2, kServing);
  EXPECT_EQ(Acquire()->spec().version, 2);
  StepUntil([&] { return States(1).empty(); });
  EXPECT_EQ(AcquireError(1), absl::StatusCode::kNotFound);
  EXPECT_EQ(InState("serving"), 1);
  EXPECT_EQ(InState("draining") + InState("unloaded"), 0);
}

TEST_F(LifecycleTest, TheOldOneStaysWhereTheNewOneFails) {
  repository_.Put(Rows(1));
  Start();
  Step();
  StepUntil(1, kServing);
  loader_.Refuse(Rows(2)->program_path);
  repository_.Put(Rows(2));
  repository_.Remove("rows", 1);
  Poll();
  StepUntil(2, kFailed);
  Poll();
  EXPECT_THAT(States(1), ElementsAre(kServing));
  EXPECT_TRUE(AskForRows(*Acquire(), 2).ok());
  EXPECT_TRUE(published_.ready());
}

TEST_F(LifecycleTest, ABrokenSuccessorOfTheSameNumberReplacesNothing) {
  repository_.Put(Rows(1));
  repository_.Put(Rows(2));
  Start();
  Step();
  StepUntil(1, kServing);
  StepUntil(2, kServing);
  const auto before = Acquire(1);
  repository_.PutBroken("rows", 1, "cut short");
  Poll();
  Poll();
  EXPECT_THAT(States(1), ElementsAre(kServing, kFailed));
  EXPECT_EQ(Acquire(1), before);
  repository_.Put(Rows(1));
  Poll();
  StepUntil([&] { return Acquire(1) != before; });
  EXPECT_TRUE(AskForRows(*Acquire(1), 2).ok());
}

TEST_F(LifecycleTest, WhoHoldsAVersionMaySubmitToItWhenItIsReplaced) {
  repository_.Put(Rows(1));
  Start();
  Step();
  StepUntil(1, kServing);
  std::shared_ptr<ModelVersion> held = Acquire();
  repository_.Put(Rows(2));
  repository_.Remove("rows", 1);
  Poll();
  StepUntil(2, kServing);
  StepUntil(1, kDraining);
  Poll();
  EXPECT_THAT(States(1), ElementsAre(kDraining));
  EXPECT_EQ(AcquireError(1), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(AskForRows(*held, 3).ok());
  held.reset();
  StepUntil([&] { return States(1).empty(); });
}

TEST_F(LifecycleTest, ADrainHasAnEnd) {
  repository_.Put(Rows(1));
  Start();
  Step();
  StepUntil(1, kServing);
  const std::shared_ptr<ModelVersion> held = Acquire();
  repository_.Remove("rows", 1);
  Poll();
  EXPECT_THAT(States(1), ElementsAre(kDraining));
  clock_.Advance(kReplacedVersionDrain - absl::Milliseconds(1));
  Step();
  EXPECT_THAT(States(1), ElementsAre(kDraining));
  clock_.Advance(absl::Milliseconds(1));
  Step();
  EXPECT_THAT(States(1), IsEmpty());
  EXPECT_EQ(AskForRows(*held, 3).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(LifecycleTest, WhatIsWantedAgainWhileItDrainsIsLoadedAnew) {
  const auto spec = Rows(1);
  repository_.Put(spec);
  Start();
  Step();
  StepUntil(1, kServing);
  std::shared_ptr<ModelVersion> held = Acquire();
  repository_.Remove("rows", 1);
  Poll();
  EXPECT_THAT(States(1), ElementsAre(kDraining));
  repository_.Put(spec);
  Poll();
  StepUntil(1, kServing);
  EXPECT_THAT(States(1), ElementsAre(kDraining, kServing));
  EXPECT_NE(Acquire(), held);
  held.reset();
  StepUntil([&] { return States(1).size() == 1; });
  EXPECT_THAT(States(1), ElementsAre(kServing));
  EXPECT_EQ(InState("serving"), 1);
}

TEST_F(LifecycleTest, WarmMeansThatEveryBucketIsSettled) {
  Compile(Never);
  repository_.Put(Rows(1));
  Start();
  Step();
  StepUntil(1, kWarming);
  EXPECT_FALSE(published_.ready());
  EXPECT_EQ(AcquireError(1), absl::StatusCode::kUnavailable);
  EXPECT_THAT(ReasonOf(1), HasSubstr("warming up: 0 of 1 buckets settled"));
}

TEST_F(LifecycleTest, EagerMeansThatItServesMeanwhile) {
  Compile(Never);
  auto spec = Rows(1);
  spec->ready_when = ReadyWhen::kEager;
  repository_.Put(spec);
  Start();
  Step();
  StepUntil(1, kServing);
  EXPECT_TRUE(published_.ready());
  compiler_->BlockUntilAsked(1);
  EXPECT_EQ(AskForRows(*Acquire(), 3)->tier, "eager");
}

TEST_F(LifecycleTest, ServesCompiledWhenItIsWarm) {
  Compile([this](const CompileRequest& request) {
    return CommitArtifact(*cache_, request.key);
  });
  repository_.Put(Rows(1));
  Start();
  Step();
  StepUntil(1, kServing);
  EXPECT_EQ(AskForRows(*Acquire(), 3)->tier, "aot");
}

TEST_F(LifecycleTest, WhatIsNotWantedAnyMoreStopsWarmingUp) {
  Compile(Never);
  repository_.Put(Rows(1));
  Start();
  Step();
  StepUntil(1, kWarming);
  compiler_->BlockUntilAsked(1);
  repository_.Remove("rows", 1);
  Poll();
  EXPECT_THAT(States(1), IsEmpty());
  EXPECT_TRUE(published_.ready());
}

// Its first run in a child process would take two minutes to be given up.
TEST_F(LifecycleTest, WhatIsNotWantedAnyMoreStopsLoading) {
  HangInFirstRun();
  EXPECT_THAT(States(1), ElementsAre(kLoading));
  repository_.Remove("rows", 1);
  Poll();
  EXPECT_THAT(States(1), IsEmpty());
}

TEST_F(LifecycleTest, RequireCacheFailsWhatHasToBeCompiled) {
  Compile(Never);
  deps_.require_cache = true;
  repository_.Put(Rows(1));
  Start();
  Step();
  StepUntil(1, kFailed);
  EXPECT_THAT(ReasonOf(1), HasSubstr("the kernel cache lacks 1 of 1 buckets"));
  EXPECT_FALSE(published_.ready());
}

TEST_F(LifecycleTest, OtherBucketsServeWhenTrafficAsksForThem) {
  Compile([this](const CompileRequest& request) {
    return CommitArtifact(*cache_, request.key);
  });
  auto spec = Rows(1);
  spec->auto_buckets = true;
  spec->buckets = {{{32}}, {{64}}};
  spec->max_batch_size = 64;
  repository_.Put(spec);
  Start();
  Step();
  StepUntil(1, kServing);
  const std::vector<ShapeBucket> before = Acquire()->spec().buckets;
  std::shared_ptr<ModelVersion> held = Acquire();
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(AskForRows(*held, 3).ok());
  clock_.Advance(kRebucket);
  Step();
  ASSERT_THAT(States(1), ElementsAre(kServing, kLoading));
  EXPECT_EQ(Acquire(), held);  // it serves until the other one is warm
  StepUntil([&] { return Acquire() != held; });
  EXPECT_NE(Acquire()->spec().buckets, before);
  EXPECT_EQ(AskForRows(*Acquire(), 3)->tier, "aot");
  EXPECT_TRUE(AskForRows(*held, 3).ok());
  EXPECT_EQ(InState("serving"), 1);
  held.reset();
  StepUntil([&] { return States(1).size() == 1; });
  EXPECT_EQ(InState("serving"), 1);
  // What it replaced is not what the repository has to say anything about.
  Poll();
  EXPECT_THAT(States(1), ElementsAre(kServing));
}

// --- the end, in each state ---

class LifecycleStopTest : public LifecycleTest {
 protected:
  void ExpectStopped() {
    lifecycle_->StopAll(clock_.Now());
    EXPECT_FALSE(published_.ready());
    EXPECT_FALSE(published_.Acquire("rows", 0).ok());
    for (const VersionState state : States(1)) {
      EXPECT_TRUE(state == kUnloaded || state == kFailed)
          << VersionStateName(state);
    }
    EXPECT_EQ(InState("serving") + InState("warming") + InState("loading") +
                  InState("draining"),
              0);
  }
};

TEST_F(LifecycleStopTest, BeforeAnything) {
  repository_.Put(Rows(1));
  Start();
  ExpectStopped();
}

TEST_F(LifecycleStopTest, WhileLoading) {
  HangInFirstRun();
  ExpectStopped();
}

TEST_F(LifecycleStopTest, WhileWarmingUp) {
  Compile(Never);
  repository_.Put(Rows(1));
  Start();
  Step();
  StepUntil(1, kWarming);
  ExpectStopped();
}

TEST_F(LifecycleStopTest, WhileServing) {
  repository_.Put(Rows(1));
  Start();
  Step();
  StepUntil(1, kServing);
  const std::shared_ptr<ModelVersion> held = Acquire();
  ExpectStopped();
  EXPECT_EQ(AskForRows(*held, 3).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(LifecycleStopTest, WhileDraining) {
  repository_.Put(Rows(1));
  Start();
  Step();
  StepUntil(1, kServing);
  const std::shared_ptr<ModelVersion> held = Acquire();
  repository_.Remove("rows", 1);
  Poll();
  EXPECT_THAT(States(1), ElementsAre(kDraining));
  ExpectStopped();
}

TEST_F(LifecycleStopTest, AfterAFailure) {
  loader_.Refuse(Rows(1)->program_path);
  repository_.Put(Rows(1));
  Start();
  Step();
  StepUntil(1, kFailed);
  ExpectStopped();
}

}  // namespace
}  // namespace stoker
