// The life of versions that are made of others. The test is the lifecycle
// thread: nothing happens between its steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "metrics/catalog.h"
#include "models/lifecycle.h"
#include "models/model_manager.h"
#include "models/model_version.h"
#include "models/pipeline_version.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_program_loader.h"
#include "tests/fakes/fake_repository.h"
#include "tests/unit/models/row_model.h"
#include "tests/unit/pipelines/declared_models.h"

namespace stoker {
namespace {

using testing::HasSubstr;
using enum VersionState;

constexpr absl::Duration kPoll = absl::Seconds(1);

// Rows as they came, as the steps of ChainOf name them.
std::shared_ptr<ModelSpec> Rows(const std::string& model,
                                DataType out = DataType::kFp32) {
  auto spec = RowModel({{{8}}});
  spec->name = model;
  spec->inputs[0].name = "in";
  spec->outputs[0].name = "out";
  spec->outputs[0].dtype = out;
  spec->program_path = "/models/" + model + "/1/model.pt2";
  return spec;
}

// A chain whose own tensors are called as a model's, so that it can be a step.
std::shared_ptr<ModelSpec> StepChain(const std::string& name,
                                     std::vector<std::string> models) {
  const auto spec = ChainOf(name, std::move(models));
  auto pipeline = std::make_shared<PipelineSpec>(*spec->pipeline);
  pipeline->inputs[0].name = pipeline->steps.front().inputs[0].tensor = "in";
  pipeline->outputs[0].name = pipeline->steps.back().outputs[0].tensor = "out";
  spec->pipeline = std::move(pipeline);
  return spec;
}

class PipelineStepsTest : public ::testing::Test {
 protected:
  ~PipelineStepsTest() override {
    lifecycle_->StopAll(MonotonicTime::InfinitePast());
  }

  void Start(bool explicit_control = false) {
    deps_.clock = &clock_;
    deps_.verify_promotions = false;
    deps_.machine = "here";
    lifecycle_ = std::make_unique<Lifecycle>(
        LifecycleOptions{.poll_interval = kPoll,
                         .explicit_control = explicit_control},
        repository_, loader_, deps_, metrics_, published_, events_);
    Step(clock_.Now());
  }
  void Step(MonotonicTime until) {
    for (const auto& event : events_->Await(clock_, until)) event();
    lifecycle_->Step();
  }
  void Poll() {
    clock_.Advance(kPoll);
    Step(clock_.Now());
  }
  void StepUntil(const std::function<bool()>& done) {
    while (!done()) Step(MonotonicTime::InfiniteFuture());
  }
  bool Serves(const std::string& model) const {
    return published_.Acquire(model, 0).ok();
  }
  std::string ReasonOf(const std::string& model) const {
    std::string reason;
    for (const auto& [line, running] : published_.Lines()) {
      if (line.model == model) reason = line.reason;
    }
    return reason;
  }
  std::string WhyNot(const std::string& model) const {
    return std::string(published_.Acquire(model, 0).status().message());
  }
  absl::Status Ask(const std::string& model, int64_t rows) const {
    auto found = published_.Acquire(model, 0);
    if (!found.ok()) return found.status();
    const ModelHandle handle(*std::move(found));
    return AskForRows(handle, rows).status();
  }
  absl::Status Load(const std::string& model) {
    std::optional<absl::Status> told;
    lifecycle_->LoadModel(model, std::nullopt,
                          [&](const absl::Status& status) { told = status; });
    while (!told.has_value()) Step(clock_.Now());
    return *told;
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

TEST_F(PipelineStepsTest, ServesWhenItsModelsDo) {
  repository_.Put(Rows("a"));
  repository_.Put(Rows("b"));
  repository_.Put(ChainOf("p", {"a", "b"}));
  Start();
  // Loads take another thread's turn: it says what it waits for till then.
  if (!Serves("p")) {
    EXPECT_THAT(ReasonOf("p"), HasSubstr("waits for model '"));
    EXPECT_FALSE(published_.ready());
  }
  StepUntil([&] { return Serves("p"); });
  EXPECT_TRUE(published_.ready());
  EXPECT_TRUE(Ask("p", 3).ok());
  // The smaller of the two, and bounds of the dimension.
  EXPECT_EQ(Ask("p", 65).code(), absl::StatusCode::kInvalidArgument);
  const auto held = published_.Acquire("p", 0);
  EXPECT_EQ(held->pipeline->stats().Snapshot().execution_count, 1u);
  EXPECT_EQ(MetricValue(metrics_, metric::kPipelineSteps.name,
                        {{"model", "p"}, {"step", "step1"}}),
            1);
}

TEST_F(PipelineStepsTest, GoesWithAModelAndComesBackWithIt) {
  repository_.Put(Rows("a"));
  repository_.Put(ChainOf("p", {"a"}));
  Start();
  StepUntil([&] { return Serves("p"); });
  repository_.Remove("a", 1);
  Poll();
  EXPECT_FALSE(Serves("p"));
  Poll();
  EXPECT_THAT(WhyNot("p"), HasSubstr("step 'step0': expected model 'a' to "
                                     "serve, found none in /models"));
  // What can't be had keeps nobody from being ready.
  EXPECT_TRUE(published_.ready() || !Serves("a"));
  repository_.Put(Rows("a"));
  Poll();
  StepUntil([&] { return Serves("p"); });
  EXPECT_TRUE(Ask("p", 3).ok());
}

TEST_F(PipelineStepsTest, IsMadeAnewWhenAModelChanges) {
  repository_.Put(Rows("a"));
  repository_.Put(ChainOf("p", {"a"}));
  Start();
  StepUntil([&] { return Serves("p"); });
  auto wide = Rows("a");
  wide->version = 2;
  wide->max_batch_size = 4;
  repository_.Put(wide);
  Poll();
  StepUntil([&] {
    return Serves("p") &&
           published_.Acquire("p", 0)->pipeline->spec().max_batch_size == 4;
  });
  // One that can't follow any more.
  auto other = Rows("a");
  other->version = 3;
  other->inputs[0].name = "pixels";
  repository_.Remove("a", 1);
  repository_.Remove("a", 2);
  repository_.Put(other);
  Poll();
  StepUntil([&] { return !Serves("p") && !ReasonOf("p").empty(); });
  EXPECT_THAT(ReasonOf("p"), HasSubstr("expected an input of model 'a'"));
  EXPECT_TRUE(Serves("a"));
}

TEST_F(PipelineStepsTest, AFailedModelIsToldOf) {
  repository_.PutBroken("a", 1, "not a program");
  repository_.Put(ChainOf("p", {"a"}));
  Start();
  EXPECT_THAT(ReasonOf("p"),
              HasSubstr("model 'a' to serve, which failed: not a program"));
}

TEST_F(PipelineStepsTest, PipelinesMayBeStepsButNotOfThemselves) {
  repository_.Put(Rows("a"));
  repository_.Put(StepChain("inner", {"a"}));
  repository_.Put(ChainOf("outer", {"inner", "a"}));
  repository_.Put(ChainOf("x", {"y"}));
  repository_.Put(ChainOf("y", {"x"}));
  Start();
  StepUntil([&] { return Serves("outer"); });
  EXPECT_TRUE(Ask("outer", 3).ok());
  EXPECT_THAT(ReasonOf("x"), HasSubstr("expected pipelines without a circle, "
                                       "got x -> y -> x"));
}

TEST_F(PipelineStepsTest, DepthIsBounded) {
  repository_.Put(Rows("p0"));
  for (int i = 1; i <= 9; ++i) {
    repository_.Put(
        StepChain("p" + std::to_string(i), {"p" + std::to_string(i - 1)}));
  }
  Start();
  StepUntil([&] { return Serves("p8"); });
  EXPECT_THAT(ReasonOf("p9"),
              HasSubstr("expected at most 8 pipelines in each other"));
}

TEST_F(PipelineStepsTest, ALoadBringsItsModelsAndAnUnloadMayTakeThem) {
  repository_.Put(Rows("a"));
  repository_.Put(Rows("b"));
  repository_.Put(ChainOf("p", {"a", "b"}));
  repository_.Put(ChainOf("q", {"b"}));
  Start(/*explicit_control=*/true);
  ASSERT_TRUE(Load("b").ok());
  const absl::Status loaded = Load("p");
  ASSERT_TRUE(loaded.ok()) << loaded;
  EXPECT_TRUE(Serves("a"));
  lifecycle_->UnloadWithSteps("p", [](const absl::Status&) {});
  Step(clock_.Now());
  EXPECT_FALSE(Serves("p"));
  EXPECT_FALSE(Serves("a"));
  EXPECT_TRUE(Serves("b"));  // by its own name
}

TEST_F(PipelineStepsTest, ALoadOfOneThatCannotServeSaysWhy) {
  repository_.Put(ChainOf("p", {"nobody"}));
  Start(/*explicit_control=*/true);
  EXPECT_THAT(Load("p").message(),
              HasSubstr("expected model 'nobody' to serve, got none that is "
                        "loaded"));
}

}  // namespace
}  // namespace stoker
