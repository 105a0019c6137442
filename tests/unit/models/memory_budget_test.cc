// Which versions rest for the host's memory and how they come back, on a clock
// that only moves when a test says so. The test is the lifecycle thread; the
// budget holds two versions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "batching/queue_timeout.h"
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

constexpr absl::Duration kPoll = absl::Minutes(1);
constexpr int64_t kBytes = 100;

std::string ProgramOf(const std::string& model) {
  return "/models/" + model + "/1/model.pt2";
}

std::shared_ptr<ModelSpec> Model(const std::string& name) {
  auto spec = RowModel({{{8}}});
  spec->name = name;
  spec->program_path = ProgramOf(name);
  spec->weights_bytes = kBytes;
  return spec;
}

class MemoryBudgetTest : public ::testing::Test {
 protected:
  MemoryBudgetTest() { Start(2 * kBytes + kBytes / 2); }
  ~MemoryBudgetTest() override { Stop(); }

  void Start(int64_t budget, bool explicit_control = false) {
    Stop();
    VersionDeps deps;
    deps.clock = &clock_;
    deps.verify_promotions = false;
    deps.machine = "here";
    lifecycle_ = std::make_unique<Lifecycle>(
        LifecycleOptions{
            .poll_interval = explicit_control ? absl::ZeroDuration() : kPoll,
            .explicit_control = explicit_control,
            .memory_budget = budget},
        repository_, loader_, deps, metrics_, published_, events_);
  }
  void Stop() {
    if (lifecycle_ != nullptr) {
      lifecycle_->StopAll(MonotonicTime::InfinitePast());
    }
  }

  // What may be loaded at a time: the budget's, and one.
  void Step(MonotonicTime until) {
    for (const auto& event : events_->Await(clock_, until)) event();
    lifecycle_->Step();
    most_loaded_ = std::max(most_loaded_, Loaded());
  }
  void Step() { Step(clock_.Now()); }
  void StepAfter(absl::Duration duration) {
    clock_.Advance(duration);
    Step();
  }
  void StepUntil(const std::string& model, VersionState state) {
    while (StateOf(model) != state) Step(MonotonicTime::InfiniteFuture());
  }
  // `models` are loaded in their order; those rest that don't fit.
  void Serve(const std::vector<std::string>& models) {
    for (const std::string& model : models) Put(Model(model));
  }
  void Put(std::shared_ptr<ModelSpec> spec) {
    const std::string model = spec->name;
    repository_.Put(std::move(spec));
    StepAfter(kPoll);
    StepUntil(model, kServing);
    Settle();
  }
  // Until nothing is on its way.
  void Settle() {
    const auto settled = [this] {
      const auto lines = published_.Lines();
      return std::all_of(lines.begin(), lines.end(), [](const auto& line) {
        return line.status.state == kServing || line.status.state == kResting ||
               line.status.state == kFailed;
      });
    };
    while (!settled()) Step(MonotonicTime::InfiniteFuture());
  }

  ModelHandle Handle(const std::string& model) {
    return ModelHandle(*published_.Acquire(model, 0));
  }
  absl::Status Ask(const std::string& model) {
    clock_.Advance(absl::Milliseconds(1));
    ModelHandle handle = Handle(model);
    const auto answer = AskLater(handle, 3);
    // Not by events alone: the end of a request that makes room is none.
    while (StateOf(model) != kServing) StepAfter(absl::Microseconds(1));
    const absl::Status status = answer->Await().status();
    return status;
  }

  int Loaded() const {
    const auto lines = published_.Lines();
    return static_cast<int>(std::count_if(
        lines.begin(), lines.end(),
        [](const auto& line) { return line.running != nullptr; }));
  }
  VersionStatus LineOf(const std::string& model) const {
    VersionStatus found;
    for (const auto& [line, running] : published_.Lines()) {
      if (line.model == model) found = line;
    }
    return found;
  }
  VersionState StateOf(const std::string& model) const {
    return LineOf(model).state;
  }
  double Rests() const {
    return MetricValue(metrics_, metric::kIdleUnloads.name,
                       {{"device", "cpu"}});
  }

  FakeClock clock_;
  MetricRegistry metrics_;
  FakeRepository repository_;
  FakeProgramLoader loader_;
  PublishedVersions published_;
  const std::shared_ptr<LifecycleEvents> events_ =
      std::make_shared<LifecycleEvents>();
  std::unique_ptr<Lifecycle> lifecycle_;
  int most_loaded_ = 0;
};

TEST_F(MemoryBudgetTest, AllAreLoadedAtTheStartAndThoseRestThatDoNotFit) {
  const std::vector<std::string> models = {"a", "b", "c", "d", "e"};
  for (const std::string& model : models) repository_.Put(Model(model));
  StepAfter(kPoll);
  Settle();
  for (const std::string& model : models) EXPECT_TRUE(LineOf(model).ready());
  EXPECT_EQ(Loaded(), 2);
  EXPECT_LE(most_loaded_, 3);
  EXPECT_EQ(Rests(), 3);
  EXPECT_TRUE(published_.ready());
  EXPECT_EQ(
      MetricValue(metrics_, metric::kModelState.name, {{"state", "resting"}}),
      3);
  EXPECT_EQ(
      MetricValue(metrics_, metric::kVersionMemory.name, {{"use", "weights"}}),
      2 * kBytes);
}

TEST_F(MemoryBudgetTest, EachComesBackWhenItIsAskedFor) {
  Serve({"a", "b", "c"});
  EXPECT_EQ(StateOf("a"), kResting);
  EXPECT_THAT(LineOf("a").reason,
              AllOf(HasSubstr("its memory on cpu was wanted for c:1"),
                    HasSubstr("a request has it loaded again")));
  for (int i = 0; i < 3; ++i) {
    for (const std::string model : {"a", "b", "c"}) {
      EXPECT_TRUE(Ask(model).ok()) << model;
      Settle();
      EXPECT_LE(Loaded(), 2);
    }
  }
  EXPECT_LE(most_loaded_, 3);
  EXPECT_EQ(Rests(), 1 + 9);
  // Its figures went on.
  EXPECT_EQ(Handle("a").stats().Snapshot().execution_count, 3);
  EXPECT_EQ(MetricValue(metrics_, metric::kColdWaitSeconds.name), 9);
}

TEST_F(MemoryBudgetTest, WhoWasAskedLastStays) {
  Serve({"a", "b"});
  EXPECT_TRUE(Ask("a").ok());
  Serve({"c"});
  EXPECT_EQ(StateOf("a"), kServing);
  EXPECT_EQ(StateOf("b"), kResting);
}

TEST_F(MemoryBudgetTest, RequestsThatWaitShareALoad) {
  Serve({"a", "b", "c"});
  ModelHandle first = Handle("a");
  std::vector<std::shared_ptr<LaterAnswer>> answers;
  for (int i = 0; i < 3; ++i) {
    ModelHandle handle = Handle("a");
    EXPECT_EQ(handle, first);
    answers.push_back(AskLater(handle, 3));
  }
  Step();
  EXPECT_TRUE(LineOf("a").ready());
  StepUntil("a", kServing);
  for (const auto& answer : answers) EXPECT_TRUE(answer->Await().ok());
  EXPECT_EQ(MetricValue(metrics_, metric::kIdleUnloads.name), 2);
  // Who found it while it rested may ask when it serves, and when it rests
  // again.
  EXPECT_TRUE(AskForRows(first, 2).ok());
  EXPECT_TRUE(Ask("b").ok());
  EXPECT_TRUE(Ask("c").ok());
  Settle();
  EXPECT_EQ(StateOf("a"), kResting);
  const auto later = AskLater(first, 2);
  StepUntil("a", kServing);
  EXPECT_TRUE(later->Await().ok());
}

TEST_F(MemoryBudgetTest, AWaitEndsWithItsDeadlineOrItsClient) {
  Serve({"a", "b", "c"});
  ModelHandle resting = Handle("a");
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  const auto left =
      AskLater(resting, 1, MonotonicTime::InfiniteFuture(), cancelled);
  const auto late = AskLater(resting, 1, clock_.Now() + absl::Seconds(1));
  cancelled->store(true);
  resting.SweepCancelled();
  EXPECT_TRUE(absl::IsCancelled(left->Await().status()));
  EXPECT_FALSE(late->come());
  StepAfter(absl::Seconds(1));
  EXPECT_TRUE(IsQueueTimeout(late->Await().status())) << late->Await().status();
}

TEST_F(MemoryBudgetTest, WhatCanNotRunWakesNobody) {
  Serve({"a", "b", "c"});
  ModelHandle resting = Handle("a");
  EXPECT_TRUE(absl::IsInvalidArgument(AskForRows(resting, 65).status()));
  Step();
  EXPECT_EQ(StateOf("a"), kResting);
}

TEST_F(MemoryBudgetTest, WhoWaitsIsToldOfALoadThatFails) {
  Serve({"a", "b", "c"});
  loader_.Refuse(ProgramOf("a"));
  ModelHandle resting = Handle("a");
  const auto answer = AskLater(resting, 1);
  StepUntil("a", kFailed);
  EXPECT_THAT(std::string(answer->Await().status().message()),
              AllOf(HasSubstr("'a' version 1"), HasSubstr("not a program"),
                    HasSubstr("tried again in 1s")));
  EXPECT_TRUE(absl::IsUnavailable(AskForRows(resting, 1).status()));
  EXPECT_FALSE(LineOf("a").ready());
  EXPECT_TRUE(LineOf("c").ready());
  StepAfter(kMinLoadBackoff);
  StepUntil("a", kFailed);
  EXPECT_TRUE(published_.ready());
  loader_.Admit(ProgramOf("a"));
  StepAfter(kMaxLoadBackoff);
  StepUntil("a", kServing);
  EXPECT_TRUE(AskForRows(resting, 1).ok());
}

TEST_F(MemoryBudgetTest, WhatIsAtWorkStays) {
  Serve({"a", "b"});
  auto at_work = published_.Acquire("a", 0);
  Serve({"c"});
  EXPECT_EQ(StateOf("a"), kServing);
  EXPECT_EQ(StateOf("b"), kResting);
  // One more than the budget where all are at work, and no second one.
  auto another = published_.Acquire("c", 0);
  EXPECT_TRUE(Ask("b").ok());
  auto third = published_.Acquire("b", 0);
  repository_.Put(Model("d"));
  StepAfter(kPoll);
  StepAfter(absl::Seconds(1));
  EXPECT_EQ(StateOf("d"), kNew);
  third = absl::UnknownError("");
  another = absl::UnknownError("");
  StepAfter(absl::Seconds(1));
  StepUntil("d", kServing);
  Settle();
  EXPECT_LE(Loaded(), 2);
  EXPECT_EQ(StateOf("a"), kServing);
}

TEST_F(MemoryBudgetTest, WhatIsKeptStays) {
  auto kept = Model("a");
  kept->keep_in_memory = true;
  Put(std::move(kept));
  Serve({"b", "c", "d"});
  EXPECT_EQ(StateOf("a"), kServing);
  EXPECT_EQ(StateOf("b"), kResting);
  EXPECT_EQ(StateOf("c"), kResting);
}

TEST_F(MemoryBudgetTest, ABudgetBelowOneVersionServesOneAtATime) {
  Start(kBytes / 2);
  Serve({"a", "b"});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Ask("a").ok());
    EXPECT_TRUE(Ask("b").ok());
  }
  EXPECT_EQ(most_loaded_, 1);
}

TEST_F(MemoryBudgetTest, WithoutABudgetNobodyRests) {
  Start(0);
  Serve({"a", "b", "c", "d"});
  EXPECT_EQ(Loaded(), 4);
}

TEST_F(MemoryBudgetTest, OneThatRestsGoesWithItsFiles) {
  Serve({"a", "b", "c"});
  ModelHandle resting = Handle("a");
  const auto answer = AskLater(resting, 1);
  repository_.Remove("a", 1);
  StepAfter(kPoll);
  while (!answer->come()) Step(MonotonicTime::InfiniteFuture());
  EXPECT_THAT(std::string(answer->Await().status().message()),
              HasSubstr("unloaded or replaced meanwhile"));
  Settle();
  EXPECT_TRUE(absl::IsNotFound(published_.Acquire("a", 0).status()));
}

TEST_F(MemoryBudgetTest, TheEndIsToldToWhoWaits) {
  Serve({"a", "b", "c"});
  ModelHandle resting = Handle("a");
  const auto answer = AskLater(resting, 1);
  Stop();
  EXPECT_THAT(std::string(answer->Await().status().message()),
              HasSubstr("Server exiting"));
  EXPECT_FALSE(AskForRows(resting, 1).ok());
}

TEST_F(MemoryBudgetTest, ClientsLoadAndUnloadWhatRests) {
  Start(2 * kBytes, /*explicit_control=*/true);
  std::vector<absl::Status> told;
  const auto load = [&](const std::string& model) {
    const size_t before = told.size();
    lifecycle_->LoadModel(model, std::nullopt,
                          [&](const absl::Status& s) { told.push_back(s); });
    Step();
    while (told.size() == before) Step(MonotonicTime::InfiniteFuture());
    EXPECT_TRUE(told.back().ok()) << told.back();
  };
  for (const std::string model : {"a", "b", "c"}) {
    repository_.Put(Model(model));
    clock_.Advance(absl::Milliseconds(1));
    load(model);
  }
  Settle();
  EXPECT_EQ(StateOf("a"), kResting);
  load("a");
  load("a");
  EXPECT_EQ(StateOf("a"), kServing);
  Settle();
  EXPECT_EQ(StateOf("b"), kResting);
  lifecycle_->UnloadModel("b",
                          [&](const absl::Status& s) { told.push_back(s); });
  Step();
  EXPECT_TRUE(told.back().ok());
  EXPECT_FALSE(published_.Acquire("b", 0).ok());
  load("b");
  EXPECT_EQ(StateOf("b"), kServing);
  // The load of one that served is no wish to have it back.
  for (const std::string model : {"b", "c"}) EXPECT_TRUE(Ask(model).ok());
  Settle();
  EXPECT_EQ(StateOf("a"), kResting);
}

}  // namespace
}  // namespace stoker
