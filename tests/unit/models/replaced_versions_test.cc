// `update: replace`, on a clock that only moves when a test says so. The test
// is the lifecycle thread, and programs that are open are counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/lifecycle.h"
#include "models/load_backoff.h"
#include "models/model_version.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_program_loader.h"
#include "tests/fakes/fake_repository.h"
#include "tests/unit/models/row_model.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using enum VersionState;

constexpr absl::Duration kPoll = absl::Seconds(1);

std::shared_ptr<ModelSpec> Rows(int64_t version) {
  auto spec = RowModel({{{8}}});
  spec->version = version;
  spec->program_path = absl::StrCat("/models/rows/", version, "/model.pt2");
  spec->update = Update::kReplace;
  return spec;
}

// Has memory for one program.
class NarrowLoader : public FakeProgramLoader {
 public:
  absl::StatusOr<std::shared_ptr<Executable>> OpenEager(
      const std::string& program, std::shared_ptr<WeightStore> weights) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    ++opens_;
    if (!open_.expired()) {
      return absl::InternalError("two programs at the same time");
    }
    auto opened = FakeProgramLoader::OpenEager(program, std::move(weights));
    if (opened.ok()) open_ = *opened;
    return opened;
  }
  int opens() ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    return opens_;
  }

 private:
  absl::Mutex mu_;
  int opens_ ABSL_GUARDED_BY(mu_) = 0;
  std::weak_ptr<Executable> open_ ABSL_GUARDED_BY(mu_);
};

class ReplacedVersionsTest : public ::testing::Test {
 protected:
  ReplacedVersionsTest() {
    VersionDeps deps;
    deps.clock = &clock_;
    deps.verify_promotions = false;
    deps.machine = "here";
    lifecycle_ = std::make_unique<Lifecycle>(
        LifecycleOptions{.poll_interval = kPoll}, repository_, loader_, deps,
        metrics_, published_, events_);
  }
  ~ReplacedVersionsTest() override {
    lifecycle_->StopAll(MonotonicTime::InfinitePast());
  }

  void Step(MonotonicTime until) {
    for (const auto& event : events_->Await(clock_, until)) event();
    lifecycle_->Step();
  }
  void Poll() {
    clock_.Advance(kPoll);
    Step(clock_.Now());
  }
  // Waits for what other threads do.
  void StepUntil(int64_t version, VersionState state) {
    while (States(version).empty() || States(version).back() != state) {
      Step(MonotonicTime::InfiniteFuture());
    }
  }
  void Serve(int64_t version) {
    repository_.Put(Rows(version));
    Poll();
    StepUntil(version, kServing);
  }
  // The repository has `version` instead of `former`.
  void Replace(int64_t former, int64_t version) {
    repository_.Remove("rows", former);
    repository_.Put(Rows(version));
    Poll();
  }

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
  std::shared_ptr<ModelVersion> Acquire() const {
    auto held = published_.Acquire("rows", 0);
    EXPECT_TRUE(held.ok()) << held.status();
    return held.ok() ? held->running : nullptr;
  }
  void ExpectGap(int64_t asked_for) const {
    const absl::Status status = published_.Acquire("rows", asked_for).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << asked_for;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("update: replace"), HasSubstr("this passes")))
        << asked_for;
  }

  FakeClock clock_;
  MetricRegistry metrics_;
  FakeRepository repository_;
  NarrowLoader loader_;
  PublishedVersions published_;
  const std::shared_ptr<LifecycleEvents> events_ =
      std::make_shared<LifecycleEvents>();
  std::unique_ptr<Lifecycle> lifecycle_;
};

TEST_F(ReplacedVersionsTest, TheOldOneIsGoneBeforeTheNewOneLoads) {
  Serve(1);
  // Somebody still has it: the gap begins, and nothing is loaded yet.
  std::shared_ptr<ModelVersion> held = Acquire();
  Replace(1, 2);
  Poll();
  EXPECT_THAT(States(1), ElementsAre(kDraining));
  EXPECT_THAT(States(2), ElementsAre(kNew));
  EXPECT_FALSE(published_.ready());
  for (const int64_t asked_for : {0, 1, 2}) ExpectGap(asked_for);
  EXPECT_TRUE(AskForRows(*held, 3).ok());
  held.reset();
  StepUntil(2, kLoading);
  for (const int64_t asked_for : {0, 1, 2}) ExpectGap(asked_for);
  StepUntil(2, kServing);
  EXPECT_EQ(Acquire()->spec().version, 2);
  EXPECT_EQ(published_.Acquire("rows", 1).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(published_.ready());
}

TEST_F(ReplacedVersionsTest, ALongDrainEndsAndItsHolderIsWaitedFor) {
  Serve(1);
  std::shared_ptr<ModelVersion> held = Acquire();
  Replace(1, 2);
  clock_.Advance(kReplacedVersionDrain);
  Step(clock_.Now());
  EXPECT_THAT(States(1), ElementsAre(kUnloaded));
  EXPECT_THAT(States(2), ElementsAre(kNew));
  held.reset();
  StepUntil(2, kServing);
}

TEST_F(ReplacedVersionsTest, TheSameNumberWithOtherFiles) {
  Serve(1);
  repository_.Put(Rows(1));
  Poll();
  ExpectGap(0);
  ExpectGap(1);
  StepUntil(1, kServing);
  EXPECT_TRUE(AskForRows(*Acquire(), 2).ok());
}

TEST_F(ReplacedVersionsTest, WhereTheNewOneFailsTheOldOneComesBack) {
  Serve(1);
  loader_.Refuse(Rows(2)->program_path,
                 absl::ResourceExhaustedError("no memory"));
  Replace(1, 2);
  StepUntil(2, kFailed);
  EXPECT_THAT(ReasonOf(2),
              AllOf(HasSubstr("no memory"), HasSubstr("is loaded again")));
  StepUntil(1, kServing);
  EXPECT_EQ(Acquire()->spec().version, 1);
  EXPECT_TRUE(published_.ready());
  // Each try would be a gap: what failed waits for somebody to change it.
  clock_.Advance(kMaxLoadBackoff);
  Poll();
  EXPECT_THAT(States(1), ElementsAre(kServing));
  EXPECT_THAT(States(2), ElementsAre(kFailed));
  loader_.Admit(Rows(2)->program_path);
  repository_.Put(Rows(2));
  Poll();
  ExpectGap(0);
  StepUntil(2, kServing);
  EXPECT_THAT(States(1), ElementsAre());
}

TEST_F(ReplacedVersionsTest, OneThatComesBackIsTriedUntilItDoes) {
  Serve(1);
  loader_.Refuse(Rows(2)->program_path);
  loader_.Refuse(Rows(1)->program_path,
                 absl::ResourceExhaustedError("taken by another"));
  Replace(1, 2);
  StepUntil(2, kFailed);
  // Twice, and the next time is not yet.
  while (loader_.opens() < 3 || States(1) != std::vector{kNew}) {
    Step(MonotonicTime::InfiniteFuture());
  }
  loader_.Admit(Rows(1)->program_path);
  clock_.Advance(kMinLoadBackoff);
  Step(clock_.Now());
  StepUntil(1, kServing);
  EXPECT_TRUE(AskForRows(*Acquire(), 2).ok());
}

TEST_F(ReplacedVersionsTest, WhereBothFailTheNewOneIsTriedAgain) {
  Serve(1);
  loader_.Refuse(Rows(2)->program_path,
                 absl::ResourceExhaustedError("no memory"));
  loader_.Refuse(Rows(1)->program_path, absl::InternalError("file is gone"));
  Replace(1, 2);
  StepUntil(2, kFailed);
  while (!States(1).empty()) Step(MonotonicTime::InfiniteFuture());
  loader_.Admit(Rows(2)->program_path);
  clock_.Advance(kMinLoadBackoff);
  Step(clock_.Now());
  StepUntil(2, kServing);
}

TEST_F(ReplacedVersionsTest, AThirdInheritsTheGap) {
  Serve(1);
  std::shared_ptr<ModelVersion> held = Acquire();
  Replace(1, 2);
  loader_.Refuse(Rows(3)->program_path);
  Replace(2, 3);
  EXPECT_THAT(States(2), ElementsAre());
  ExpectGap(0);
  held.reset();
  StepUntil(3, kFailed);
  StepUntil(1, kServing);
  EXPECT_EQ(Acquire()->spec().version, 1);
}

TEST_F(ReplacedVersionsTest, AModelThatNobodyWantsDoesNotComeBack) {
  Serve(1);
  std::shared_ptr<ModelVersion> held = Acquire();
  Replace(1, 2);
  repository_.Remove("rows", 2);
  Poll();
  held.reset();
  while (!published_.Lines().empty()) Step(MonotonicTime::InfiniteFuture());
  EXPECT_EQ(published_.Acquire("rows", 0).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ReplacedVersionsTest, WhatHasNoPlaceCostsNobodyAGap) {
  Serve(1);
  auto misplaced = Rows(2);
  misplaced->devices = {{.kind = Device::Kind::kGpu, .index = 3}};
  repository_.Remove("rows", 1);
  repository_.Put(misplaced);
  Poll();
  EXPECT_THAT(States(2), ElementsAre(kFailed));
  EXPECT_THAT(ReasonOf(2), HasSubstr("uses no GPU"));
  EXPECT_THAT(States(1), ElementsAre(kServing));
}

TEST_F(ReplacedVersionsTest, ADrainedServerLoadsNothing) {
  Serve(1);
  std::shared_ptr<ModelVersion> held = Acquire();
  Replace(1, 2);
  lifecycle_->StopAll(MonotonicTime::InfinitePast());
  EXPECT_THAT(States(2), ElementsAre(kUnloaded));
}

}  // namespace
}  // namespace stoker
