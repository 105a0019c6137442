// What clients ask of the lifecycle when model control is explicit. The test is
// the lifecycle thread: nothing happens between its steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/lifecycle.h"
#include "models/model_version.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_program_loader.h"
#include "tests/fakes/fake_repository.h"
#include "tests/unit/models/row_model.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using enum VersionState;

std::shared_ptr<ModelSpec> Spec(const std::string& model, int64_t version) {
  auto spec = RowModel({{{8}}});
  spec->name = model;
  spec->version = version;
  spec->program_path =
      absl::StrCat("/models/", model, "/", version, "/model.pt2");
  return spec;
}

class ExplicitControlTest : public ::testing::Test {
 protected:
  ExplicitControlTest() {
    repository_.Put(Spec("a", 1));
    repository_.Put(Spec("b", 1));
  }
  ~ExplicitControlTest() override {
    lifecycle_->StopAll(MonotonicTime::InfinitePast());
  }

  void Start(std::vector<std::string> models = {}) {
    deps_.clock = &clock_;
    deps_.verify_promotions = false;
    deps_.machine = "here";
    lifecycle_ = std::make_unique<Lifecycle>(
        LifecycleOptions{.explicit_control = true,
                         .load_models = std::move(models)},
        repository_, loader_, deps_, metrics_, published_, events_);
    Step(clock_.Now());
  }
  void Step(MonotonicTime until) {
    for (const auto& event : events_->Await(clock_, until)) event();
    lifecycle_->Step();
  }
  AwaitedChanges::Done Tell(std::optional<absl::Status>& told) {
    return [&told](const absl::Status& status) {
      EXPECT_FALSE(told.has_value());
      told = status;
    };
  }
  absl::Status Load(const std::string& model) {
    std::optional<absl::Status> told;
    lifecycle_->LoadModel(model, std::nullopt, Tell(told));
    while (!told.has_value()) Step(clock_.Now());
    return *told;
  }
  absl::Status Unload(const std::string& model) {
    std::optional<absl::Status> told;
    lifecycle_->UnloadModel(model, Tell(told));
    Step(clock_.Now());
    return told.value_or(absl::UnknownError("not told"));
  }
  // "a:1" that requests get; "" for none.
  std::string Serves(const std::string& model) const {
    const auto held = published_.Acquire(model, 0);
    return held.ok() ? (*held)->spec().Label() : "";
  }

  FakeClock clock_;
  MetricRegistry metrics_;
  FakeRepository repository_;
  FakeProgramLoader loader_;
  VersionDeps deps_;
  PublishedVersions published_;
  const std::shared_ptr<LifecycleEvents> events_ =
      std::make_shared<LifecycleEvents>();
  std::unique_ptr<Lifecycle> lifecycle_;
};

TEST_F(ExplicitControlTest, NothingIsLoadedUnlessChosen) {
  Start();
  EXPECT_THAT(published_.Lines(), IsEmpty());
  EXPECT_THAT(published_.Unloaded(), ElementsAre("a", "b"));
  EXPECT_TRUE(published_.ready());
  ASSERT_TRUE(Load("a").ok());
  EXPECT_EQ(Serves("a"), "a:1");
  EXPECT_EQ(Serves("b"), "");
  EXPECT_THAT(published_.Unloaded(), ElementsAre("b"));
  EXPECT_TRUE(published_.ready());
}

TEST_F(ExplicitControlTest, ChosenAtTheStart) {
  Start({"b"});
  while (Serves("b").empty()) Step(MonotonicTime::InfiniteFuture());
  EXPECT_EQ(Serves("a"), "");
  ASSERT_TRUE(Load("a").ok());
  EXPECT_EQ(Serves("b"), "b:1");
}

TEST_F(ExplicitControlTest, AllAtTheStart) {
  Start({"*"});
  while (Serves("a").empty() || Serves("b").empty()) {
    Step(MonotonicTime::InfiniteFuture());
  }
  EXPECT_THAT(published_.Unloaded(), IsEmpty());
}

TEST_F(ExplicitControlTest, ChosenAtTheStartAndNotThere) {
  Start({"nobody", "a"});
  while (Serves("a").empty()) Step(MonotonicTime::InfiniteFuture());
  EXPECT_TRUE(published_.ready());
  EXPECT_THAT(published_.Lines()[0].status.reason,
              HasSubstr("expected a model in /models/nobody, found none"));
}

// The repository isn't followed.
TEST_F(ExplicitControlTest, WhatChangesWaitsForALoad) {
  Start({"a"});
  while (Serves("a").empty()) Step(MonotonicTime::InfiniteFuture());
  repository_.Put(Spec("a", 2));
  repository_.Remove("a", 1);
  clock_.Advance(absl::Hours(1));
  Step(clock_.Now());
  EXPECT_EQ(Serves("a"), "a:1");
  ASSERT_TRUE(Load("a").ok());
  EXPECT_EQ(Serves("a"), "a:2");
}

TEST_F(ExplicitControlTest, ALoadOfWhatServesChangesNothing) {
  Start();
  ASSERT_TRUE(Load("a").ok());
  const auto before = *published_.Acquire("a", 0);
  ASSERT_TRUE(Load("a").ok());
  EXPECT_EQ(*published_.Acquire("a", 0), before);
}

TEST_F(ExplicitControlTest, AFailedLoadLeavesWhatServes) {
  Start();
  ASSERT_TRUE(Load("a").ok());
  repository_.Put(Spec("a", 2));
  repository_.Remove("a", 1);
  loader_.Refuse(Spec("a", 2)->program_path);
  const absl::Status failed = Load("a");
  EXPECT_EQ(failed.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(failed.message()),
              StartsWith("failed to load 'a', no version is available: version "
                         "2: "));
  EXPECT_EQ(Serves("a"), "a:1");
  EXPECT_TRUE(published_.ready());
  // The same files are tried again when somebody asks.
  loader_.Admit(Spec("a", 2)->program_path);
  ASSERT_TRUE(Load("a").ok());
  EXPECT_EQ(Serves("a"), "a:2");
}

TEST_F(ExplicitControlTest, WhatCantBeRead) {
  Start();
  ASSERT_TRUE(Load("a").ok());
  repository_.PutBroken("a", 1, "cut short");
  EXPECT_THAT(std::string(Load("a").message()), HasSubstr("cut short"));
  EXPECT_EQ(Serves("a"), "a:1");
  EXPECT_THAT(std::string(Load("nobody").message()),
              StartsWith("failed to load 'nobody', failed to poll from model "
                         "repository: "));
  repository_.Fail(absl::NotFoundError("unmounted"));
  EXPECT_THAT(std::string(Load("a").message()), HasSubstr("unmounted"));
  EXPECT_EQ(Serves("a"), "a:1");
}

TEST_F(ExplicitControlTest, Unloads) {
  Start({"*"});
  while (Serves("a").empty() || Serves("b").empty()) {
    Step(MonotonicTime::InfiniteFuture());
  }
  const auto held = *published_.Acquire("a", 0);
  ASSERT_TRUE(Unload("a").ok());
  EXPECT_EQ(Serves("a"), "");
  EXPECT_EQ(Serves("b"), "b:1");
  EXPECT_TRUE(AskForRows(*held, 2).ok());  // who found it is answered
  EXPECT_TRUE(Unload("a").ok());
  EXPECT_TRUE(Unload("nobody").ok());
  std::optional<absl::Status> nameless;
  lifecycle_->UnloadModel("", Tell(nameless));
  EXPECT_EQ(nameless->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Serves("b"), "b:1");
  ASSERT_TRUE(Load("a").ok());
  EXPECT_EQ(Serves("a"), "a:1");
}

TEST_F(ExplicitControlTest, AnUnloadEndsALoad) {
  Start();
  std::optional<absl::Status> load;
  lifecycle_->LoadModel("a", std::nullopt, Tell(load));
  std::optional<absl::Status> unload;
  lifecycle_->UnloadModel("a", Tell(unload));
  EXPECT_EQ(load->code(), absl::StatusCode::kAborted);
  Step(clock_.Now());
  EXPECT_TRUE(unload->ok());
  EXPECT_EQ(Serves("a"), "");
}

TEST_F(ExplicitControlTest, TwoLoadsAtOnce) {
  Start();
  std::optional<absl::Status> first;
  std::optional<absl::Status> second;
  std::optional<absl::Status> other;
  lifecycle_->LoadModel("a", std::nullopt, Tell(first));
  lifecycle_->LoadModel("a", std::nullopt, Tell(second));
  lifecycle_->LoadModel("b", std::nullopt, Tell(other));
  while (!first || !second || !other) Step(clock_.Now());
  EXPECT_TRUE(first->ok() && second->ok() && other->ok());
}

TEST_F(ExplicitControlTest, WhatARequestBrings) {
  Start();
  ASSERT_TRUE(Load("a").ok());
  const auto before = *published_.Acquire("a", 0);
  std::optional<absl::Status> told;
  const auto bring = [&](const std::string& model, int64_t version) {
    told.reset();
    lifecycle_->LoadVersions(
        model, {{model, version, Spec(model, version), {}}}, Tell(told));
  };
  // It takes the place of what the repository says, which serves until then.
  bring("a", 7);
  EXPECT_EQ(Serves("a"), "a:1");
  // Nobody else's wish comes between.
  std::optional<absl::Status> other;
  lifecycle_->LoadModel("a", std::nullopt, Tell(other));
  EXPECT_EQ(other->code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(other->message()), HasSubstr("is under way"));
  while (!told.has_value()) Step(clock_.Now());
  EXPECT_TRUE(told->ok()) << *told;
  EXPECT_EQ(Serves("a"), "a:7");
  // One that fails leaves it.
  loader_.Refuse(Spec("a", 8)->program_path);
  bring("a", 8);
  while (!told.has_value()) Step(clock_.Now());
  EXPECT_EQ(told->code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Serves("a"), "a:7");
  // A model of nobody's repository.
  bring("c", 1);
  while (!told.has_value()) Step(clock_.Now());
  EXPECT_TRUE(told->ok()) << *told;
  EXPECT_EQ(Serves("c"), "c:1");
  EXPECT_FALSE(Load("c").ok());
  EXPECT_EQ(Serves("c"), "c:1");
  ASSERT_TRUE(Unload("c").ok());
  EXPECT_EQ(Serves("c"), "");
  // Back to the repository.
  ASSERT_TRUE(Load("a").ok());
  EXPECT_EQ(Serves("a"), "a:1");
}

TEST_F(ExplicitControlTest, AliasesMoveWhenTheirVersionsServe) {
  repository_.Put(Spec("a", 2));
  repository_.SetAliases("a", {{"stable", {1, 90}}, {"canary", {2, 10}}});
  Start();
  ASSERT_TRUE(Load("a").ok());
  const auto means = [&](std::string_view alias) {
    const auto held = published_.Acquire("a", WantedVersion{.alias = alias});
    return held.ok() ? (*held)->spec().Label() : "";
  };
  EXPECT_EQ(means("stable"), "a:1");
  EXPECT_EQ(means("canary"), "a:2");
  EXPECT_EQ(
      published_.Acquire("a", WantedVersion{.alias = "nobody"}).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      published_.Acquire("b", WantedVersion{.alias = "stable"}).status().code(),
      absl::StatusCode::kInvalidArgument);
  // Who names no version gets each by its percentage, whatever is published
  // meanwhile; who only looks, the larger one.
  std::map<std::string, int> runs;
  for (int i = 0; i < 300; ++i) {
    ++runs[(*published_.AcquireForRun("a", {}))->spec().Label()];
    if (i % 7 == 0) Step(clock_.Now());
  }
  EXPECT_EQ(runs, (std::map<std::string, int>{{"a:1", 270}, {"a:2", 30}}));
  EXPECT_EQ(Serves("a"), "a:1");
  const std::vector<PublishedVersions::Line> lines = published_.Lines();
  EXPECT_EQ(lines[0].status.aliases,
            (std::map<std::string, int>{{"stable", 90}}));

  // A promotion to what fails leaves what the alias means, and its version.
  repository_.Put(Spec("a", 3));
  repository_.Remove("a", 1);
  repository_.SetAliases("a", {{"stable", {3, 100}}});
  loader_.Refuse(Spec("a", 3)->program_path);
  EXPECT_FALSE(Load("a").ok());
  Step(clock_.Now());
  EXPECT_EQ(means("stable"), "a:1");
  EXPECT_EQ(means("canary"), "");
  EXPECT_EQ((*published_.AcquireForRun("a", {}))->spec().Label(), "a:1");
  // To what serves, it moves at once, and its version goes.
  loader_.Admit(Spec("a", 3)->program_path);
  ASSERT_TRUE(Load("a").ok());
  EXPECT_EQ(means("stable"), "a:3");
  Step(clock_.Now());
  EXPECT_FALSE(published_.Acquire("a", 1).ok());
  ASSERT_TRUE(Unload("a").ok());
  EXPECT_EQ(means("stable"), "");
}

TEST_F(ExplicitControlTest, BeforeTheFirstStep) {
  deps_.clock = &clock_;
  deps_.machine = "here";
  lifecycle_ = std::make_unique<Lifecycle>(
      LifecycleOptions{.explicit_control = true, .load_models = {"b"}},
      repository_, loader_, deps_, metrics_, published_, events_);
  ASSERT_TRUE(Load("a").ok());
  while (Serves("b").empty()) Step(MonotonicTime::InfiniteFuture());
  EXPECT_EQ(Serves("a"), "a:1");
}

TEST_F(ExplicitControlTest, NewNamesAreSeenOnRequest) {
  Start();
  repository_.Put(Spec("c", 1));
  std::optional<absl::Status> told;
  lifecycle_->RefreshNames("", Tell(told));
  Step(clock_.Now());
  EXPECT_TRUE(told->ok());
  EXPECT_THAT(published_.Unloaded(), ElementsAre("a", "b", "c"));
}

TEST_F(ExplicitControlTest, TheEnd) {
  Start();
  std::optional<absl::Status> load;
  lifecycle_->LoadModel("a", std::nullopt, Tell(load));
  lifecycle_->StopAll(MonotonicTime::InfinitePast());
  EXPECT_EQ(load->code(), absl::StatusCode::kUnavailable);
  std::optional<absl::Status> after;
  lifecycle_->LoadModel("b", std::nullopt, Tell(after));
  EXPECT_EQ(after->code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace stoker
