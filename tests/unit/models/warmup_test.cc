// What a warm-up asks of the compiler, what it makes of the answers, and that
// it ends when it is told to. On a clock that only moves when something runs.
#include "models/warmup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/thread.h"
#include "batching/device_turns.h"
#include "kernel_cache/kernel_cache.h"
#include "metrics/catalog.h"
#include "models/model_version.h"
#include "models/reference_run.h"
#include "models/version_labels.h"
#include "planning/evidence_store.h"
#include "promotion/verdict.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_compiler.h"
#include "tests/fakes/fake_program_loader.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/models/row_model.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// As other code would, within what rounding may do.
absl::StatusOr<RunResult> Rounded(absl::Span<const Tensor> inputs) {
  RunResult result;
  for (const Tensor& input : inputs) {
    std::vector<float> values = ValuesOf<float>(input);
    for (float& value : values) value *= 1.001F;
    result.outputs.push_back(
        MakeTensor<float>(DataType::kFp32, input.shape, values));
  }
  return result;
}

class WarmupTest : public ::testing::Test {
 protected:
  WarmupTest() {
    auto cache =
        KernelCache::Open({.root = folder_ / "cache"}, Files::Real(), metrics_);
    EXPECT_TRUE(cache.ok()) << cache.status();
    cache_ = *std::move(cache);
    deps_.cache = cache_.get();
    deps_.compiler = &compiler_;
    deps_.placement = {.places = {{"cpu", &loader_, &turns_}}};
    deps_.clock = &clock_;
    deps_.metrics =
        std::make_shared<MetricScope>(metrics_, VersionLabels(*spec_));
    deps_.machine = "here";
    deps_.verify_promotions = false;
  }
  ~WarmupTest() override { version_.reset(); }

  void Load() {
    version_ = std::make_unique<ModelVersion>(spec_, deps_);
    ASSERT_TRUE(version_->Load().ok());
  }
  void Serve() {
    Load();
    version_->warmup().Run();
  }
  BucketSlot::Snapshot Slot(size_t step) const {
    return version_->Buckets()[step].slot;
  }
  double Fallbacks(const char* reason) const {
    return MetricValue(metrics_, metric::kFallbacks.name, {{"reason", reason}});
  }
  ArtifactKey Key(size_t step) const {
    return MakeWarmupPlan(*spec_, {})[step].request.key;
  }
  // The verdict on what the cache has for a step.
  std::optional<Verdict> Known(size_t step) const {
    return Evidence().ReadVerdict(*cache_->entries().Identify(Key(step)));
  }
  EvidenceStore Evidence() const {
    return EvidenceStore(*spec_, &cache_->facts(), {deps_.machine, 1}, true);
  }
  // Puts another artifact in the place of a step's.
  void Replace(size_t step) {
    std::filesystem::remove_all(
        cache_->entries().layers()[0].EntryFolder(Key(step)));
    ASSERT_TRUE(
        CommitArtifact(*cache_, Key(step), {{"model.so", "other code"}}).ok());
  }
  // What compiling a bucket ends with: an artifact unless said otherwise.
  void Fail(const std::string& bucket, absl::Status status) {
    const absl::MutexLock lock(&mu_);
    failures_[bucket] = std::move(status);
  }

  const TempFolder folder_{TempFolder::Where::kMemory};
  FakeClock clock_;
  MetricRegistry metrics_;
  DeviceTurns turns_{2, clock_};
  std::unique_ptr<KernelCache> cache_;
  FakeProgramLoader loader_{Rounded};
  FakeProgramLoader exact_;
  absl::Mutex mu_;
  std::map<std::string, absl::Status> failures_ ABSL_GUARDED_BY(mu_);
  FakeCompiler compiler_{[this](const CompileRequest& request)
                             -> std::optional<absl::StatusOr<CacheEntry>> {
    const absl::MutexLock lock(&mu_);
    if (const auto found = failures_.find(request.bucket);
        found != failures_.end()) {
      if (found->second.ok()) return std::nullopt;  // never ends
      return found->second;
    }
    return CommitArtifact(*cache_, request.key);
  }};
  std::shared_ptr<ModelSpec> spec_ = RowModel({{{4}}, {{8}}});
  VersionDeps deps_;
  std::unique_ptr<ModelVersion> version_;
};

TEST_F(WarmupTest, CompilesWhatTheCacheLacks) {
  Load();
  EXPECT_TRUE(compiler_.expected());
  EXPECT_EQ(Slot(0).state, BucketState::kPending);
  EXPECT_THAT(version_->ProgressText(), HasSubstr("0 of 2 buckets settled"));
  version_->warmup().Run();
  EXPECT_THAT(compiler_.asked(), ElementsAre("batch=4", "batch=8"));
  EXPECT_EQ(Slot(0).state, BucketState::kCompiled);
  EXPECT_EQ(Slot(1).state, BucketState::kCompiled);
  EXPECT_EQ(version_->ProgressText(), "");
  // Another start has it all.
  Load();
  EXPECT_EQ(Slot(0).state, BucketState::kCompiled);
  EXPECT_EQ(compiler_.asked().size(), 2u);
}

TEST_F(WarmupTest, WhereTheCacheHasAllNoCompilerIsExpected) {
  for (const size_t step : {0, 1}) {
    ASSERT_TRUE(CommitArtifact(*cache_, Key(step)).ok());
  }
  Load();
  EXPECT_FALSE(compiler_.expected());
}

TEST_F(WarmupTest, WhatTrafficAsksForMostComesFirst) {
  deps_.traffic =
      std::make_shared<ModelTraffic>(TrafficRecord{.dimensions = {"batch"}});
  for (int i = 0; i < 3; ++i) deps_.traffic->RecordRequest({7});
  deps_.traffic->RecordRequest({2});
  Serve();
  EXPECT_THAT(compiler_.asked(), ElementsAre("batch=8", "batch=4"));
}

TEST_F(WarmupTest, AFailedCompileIsTriedOnceMoreAndCostsOneBucketOnly) {
  Fail("batch=4", absl::InternalError("g++ crashed"));
  Serve();
  EXPECT_THAT(compiler_.asked(), ElementsAre("batch=4", "batch=8", "batch=4"));
  EXPECT_EQ(Slot(0).state, BucketState::kEager);
  EXPECT_EQ(Slot(0).fallback, FallbackReason::kCompile);
  EXPECT_EQ(Slot(0).detail, "compile: g++ crashed");
  EXPECT_EQ(Slot(1).state, BucketState::kCompiled);
  EXPECT_EQ(Fallbacks("compile"), 1);
}

TEST_F(WarmupTest, WhatTryingAgainWontHelpIsNotTriedAgain) {
  Fail("batch=4", absl::UnavailableError("no Python"));
  Fail("batch=8", absl::DeadlineExceededError("15 min"));
  Serve();
  EXPECT_THAT(compiler_.asked(), ElementsAre("batch=4", "batch=8"));
  EXPECT_EQ(Slot(0).fallback, FallbackReason::kNoCompiler);
  EXPECT_EQ(Slot(1).fallback, FallbackReason::kTimeout);
}

// What the answer depends on is in the key: no start asks for it again, and a
// cache that says so is complete.
TEST_F(WarmupTest, ARefusalIsKnownAtTheNextStart) {
  Fail("batch=4", absl::FailedPreconditionError("an unguarded check"));
  Serve();
  EXPECT_EQ(Slot(0).fallback, FallbackReason::kRefused);
  deps_.require_cache = true;
  Serve();
  EXPECT_THAT(compiler_.asked(), ElementsAre("batch=4", "batch=8"));
  EXPECT_EQ(Slot(0).state, BucketState::kEager);
  EXPECT_EQ(Slot(0).fallback, FallbackReason::kRefused);
  EXPECT_EQ(Slot(0).detail, "refused: an unguarded check");
  EXPECT_EQ(Slot(1).state, BucketState::kCompiled);
  EXPECT_EQ(Fallbacks("refused"), 2);
  // Whoever doubts what was found out asks again.
  deps_.require_cache = false;
  deps_.trust_verdicts = false;
  Serve();
  EXPECT_EQ(compiler_.asked().size(), 3u);
}

TEST_F(WarmupTest, OtherFailuresAreForgotten) {
  Fail("batch=4", absl::ResourceExhaustedError("memory"));
  Fail("batch=8", absl::InternalError("g++ crashed"));
  Serve();
  EXPECT_EQ(compiler_.asked().size(), 3u);
  Serve();
  EXPECT_EQ(compiler_.asked().size(), 6u);
  deps_.require_cache = true;
  version_ = std::make_unique<ModelVersion>(spec_, deps_);
  EXPECT_THAT(std::string(version_->Load().message()),
              HasSubstr("lacks 2 of 2 buckets"));
}

// A compile takes 18 s, by the manifest.
TEST_F(WarmupTest, TheBudgetEndsCompiling) {
  spec_->compile.budget = absl::Seconds(30);
  Serve();
  EXPECT_THAT(compiler_.asked(), ElementsAre("batch=4"));
  EXPECT_EQ(Slot(0).state, BucketState::kCompiled);
  EXPECT_EQ(Slot(1).fallback, FallbackReason::kBudget);
  EXPECT_THAT(Slot(1).detail, StartsWith("budget: not compiled: 18 of"));
  EXPECT_FALSE(version_->warmup().MorePaysBack());
}

TEST_F(WarmupTest, WithoutTrafficNothingPaysBackAndWithItOneIsTried) {
  spec_->compile.pays_back_within = 1000;
  deps_.traffic =
      std::make_shared<ModelTraffic>(TrafficRecord{.dimensions = {"batch"}});
  Serve();
  EXPECT_THAT(compiler_.asked(), IsEmpty());
  EXPECT_EQ(Slot(0).fallback, FallbackReason::kPayback);
  EXPECT_FALSE(version_->warmup().MorePaysBack());
  deps_.traffic->RecordRequest({2});
  EXPECT_TRUE(version_->warmup().MorePaysBack());
}

TEST_F(WarmupTest, StoppedItDoesNotWaitForTheCompiler) {
  Fail("batch=4", absl::OkStatus());
  Fail("batch=8", absl::OkStatus());
  Load();
  Thread job("warm-up", [this] { version_->warmup().Run(); });
  compiler_.BlockUntilAsked(2);
  version_->Stop(MonotonicTime::InfinitePast());
  job.Join();
  EXPECT_FALSE(IsSettled(Slot(0).state));
}

TEST_F(WarmupTest, StoppedItLoadsNothing) {
  for (const WarmupStep& step : MakeWarmupPlan(*spec_, {})) {
    ASSERT_TRUE(CommitArtifact(*cache_, step.request.key).ok());
  }
  version_ = std::make_unique<ModelVersion>(spec_, deps_);
  version_->StopWarmup();
  EXPECT_EQ(version_->Load().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Slot(0).state, BucketState::kPending);
}

// Timing takes the device for seconds.
class RetimingTest : public WarmupTest {
 protected:
  // What was timed on another machine, loaded on this one.
  RetimingTest() {
    deps_.placement = {.places = {{"cpu", &exact_, &turns_}}};
    deps_.verify_promotions = true;
    Serve();
    EXPECT_EQ(MeasuredOn(0), "here");
    deps_.machine = "there";
    Load();
    job_ = Thread("warm-up", [this] { version_->warmup().Improve(); });
  }
  ~RetimingTest() override {
    version_->Stop(MonotonicTime::InfinitePast());
    job_.Join();
  }

  Profit ProfitOf(size_t step) const { return Known(step)->profit; }
  std::string MeasuredOn(size_t step) const {
    return ProfitOf(step).measured_on;
  }
  // Two seconds with a request.
  void Traffic() {
    BlockUntilItWaits();
    EXPECT_TRUE(AskForRows(*version_, 2).ok());
    clock_.Advance(absl::Seconds(2));
  }
  void Quiet() {
    BlockUntilItWaits();
    clock_.Advance(absl::Seconds(2));
  }
  // The other that waits is the batcher's timer.
  void BlockUntilItWaits() { clock_.BlockUntilWaiters(2); }

  Thread job_;
};

TEST_F(RetimingTest, WaitsUntilRequestsLeaveTheDeviceAlone) {
  for (int i = 0; i < 5; ++i) Traffic();
  BlockUntilItWaits();
  EXPECT_EQ(MeasuredOn(0), "here");
  Quiet();
  BlockUntilItWaits();
  EXPECT_EQ(MeasuredOn(0), "there");
  // For each bucket.
  Traffic();
  BlockUntilItWaits();
  EXPECT_EQ(MeasuredOn(1), "here");
  Quiet();
  job_.Join();
  EXPECT_EQ(MeasuredOn(1), "there");
}

// Beside a neighbour runs had fewer threads: what they took says little.
TEST_F(RetimingTest, WhatWasTimedOnFewerThreadsIsTimedAgain) {
  Quiet();
  Quiet();
  job_.Join();
  EXPECT_EQ(ProfitOf(0).threads, 1);
  // Another key has nothing but this.
  Profit other = ProfitOf(0);
  other.threads = 3;
  Replace(0);
  const ArtifactId artifact = *cache_->entries().Identify(Key(0));
  Evidence().WriteParity(artifact, {.equal = true});
  Evidence().WriteProfit(artifact, other);
  EXPECT_EQ(ProfitOf(0).threads, 3);
  Load();
  job_ = Thread("warm-up", [this] { version_->warmup().Improve(); });
  Quiet();
  job_.Join();
  EXPECT_EQ(ProfitOf(0).threads, 1);
}

// Models share the device.
TEST_F(RetimingTest, WaitsForOtherModelsToo) {
  DeviceTurns::Client other(turns_, 1, 1);
  for (int i = 0; i < 3; ++i) {
    BlockUntilItWaits();
    DeviceTurns::Take(other);
    clock_.Advance(absl::Seconds(2));
  }
  BlockUntilItWaits();
  DeviceTurns::Turn one_that_lasts = DeviceTurns::Take(other);
  clock_.Advance(absl::Seconds(2));
  Quiet();
  BlockUntilItWaits();
  EXPECT_EQ(MeasuredOn(0), "here");
  one_that_lasts.End();
  Quiet();
  BlockUntilItWaits();
  EXPECT_EQ(MeasuredOn(0), "there");
}

TEST_F(RetimingTest, WaitsForTenMinutesAtMost) {
  for (int i = 0; i < 299; ++i) Traffic();
  BlockUntilItWaits();
  EXPECT_EQ(MeasuredOn(0), "here");
  Traffic();
  job_.Join();
  EXPECT_EQ(MeasuredOn(0), "there");
  EXPECT_EQ(MeasuredOn(1), "there");
}

TEST_F(RetimingTest, EndsWithItsVersion) {
  BlockUntilItWaits();
  version_->StopWarmup();
  job_.Join();
  EXPECT_EQ(MeasuredOn(0), "here");
}

// A run in float64 may take ten minutes; nobody waits for it, and that it was
// cut short is no verdict.
TEST_F(WarmupTest, StoppedItEndsARunInFloat64) {
  const std::string begun = folder_ / "begun";
  ASSERT_EQ(mkfifo(begun.c_str(), 0600), 0);
  const ReferenceRun reference(
      {.argv = {"/bin/sh", "-c", "echo > " + begun + "; exec sleep 600"}});
  deps_.reference = &reference;
  deps_.verify_promotions = true;
  Load();
  Thread job("warm-up", [this] { version_->warmup().Run(); });
  std::ifstream(begun).get();
  EXPECT_EQ(Slot(0).state, BucketState::kChecking);
  version_->Stop(MonotonicTime::InfinitePast());
  job.Join();
  EXPECT_EQ(Slot(0).state, BucketState::kChecking);
  for (const WarmupStep& step : MakeWarmupPlan(*spec_, {})) {
    EXPECT_EQ(cache_->facts().NoteNames(step.request.key),
              std::vector<std::string>());
  }
}

// The same code takes as long with other weights, but answers something else.
TEST_F(WarmupTest, OtherWeightsOweParityAlone) {
  deps_.placement = {.places = {{"cpu", &exact_, &turns_}}};
  deps_.verify_promotions = true;
  spec_->weights_bytes = 1 << 20;  // what is as fast has to be smaller
  Serve();
  const ArtifactId artifact = *cache_->entries().Identify(Key(0));
  Profit timed = *Evidence().ReadProfit(artifact);
  timed.speedup = 1.75;
  Evidence().WriteProfit(artifact, timed);
  version_.reset();
  spec_ = std::make_shared<ModelSpec>(*spec_);
  spec_->weights_digest = "retrained";
  EXPECT_FALSE(Known(0).has_value());
  Load();
  EXPECT_EQ(Slot(0).state, BucketState::kPending);
  version_->warmup().Run();
  EXPECT_EQ(Slot(0).state, BucketState::kCompiled);
  EXPECT_GT(Slot(0).verdict.parity.cases.size(), 1u);
  EXPECT_EQ(Slot(0).verdict.profit.speedup, 1.75);
  // What isn't equal with these weights isn't promoted for its speed.
  version_.reset();
  spec_ = std::make_shared<ModelSpec>(*spec_);
  spec_->weights_digest = "retrained again";
  deps_.placement = {.places = {{"cpu", &loader_, &turns_}}};
  Serve();
  EXPECT_EQ(Slot(0).fallback, FallbackReason::kParity);
  // And on another machine both are known until there is time to time it.
  spec_ = std::make_shared<ModelSpec>(*spec_);
  spec_->weights_digest = "retrained";
  deps_.machine = "there";
  EXPECT_EQ(Known(0)->profit.measured_on, "here");
}

// A run in float64 that answers is a verdict, and one that says that there is
// none; one that could not be made is not, and the next start asks again.
TEST_F(WarmupTest, WithoutAFloat64RunNothingIsDecided) {
  signal(SIGPIPE, SIG_IGN);  // as the daemon has it
  deps_.verify_promotions = true;
  int starts = 0;
  for (const char* script : {"exit 1", "kill -9 $$", "printf cut >&3"}) {
    const ReferenceRun reference({.argv = {"/bin/sh", "-c", script}});
    deps_.reference = &reference;
    Serve();
    EXPECT_EQ(Slot(0).state, BucketState::kEager);
    EXPECT_EQ(Slot(0).fallback, FallbackReason::kUnjudged);
    EXPECT_THAT(Slot(0).detail, HasSubstr("no float64 run to judge by: "));
    EXPECT_EQ(Fallbacks("unjudged"), 2 * ++starts);
    EXPECT_FALSE(Known(0).has_value());
    EXPECT_EQ(cache_->facts().NoteNames(Key(0)), std::vector<std::string>());
    version_.reset();
  }
  const ReferenceRun none({});
  deps_.reference = &none;
  Serve();
  EXPECT_EQ(Slot(0).fallback, FallbackReason::kUnjudged);
  // As eager says: the candidate is wrong.
  const ReferenceRun answers({.argv = {"/bin/sh", "-c", "cat >&3"}});
  deps_.reference = &answers;
  Serve();
  EXPECT_EQ(Slot(0).fallback, FallbackReason::kParity);
  ASSERT_TRUE(Known(0).has_value());
  EXPECT_EQ(Known(0)->refusal(), "parity");
}

// A compile that was made again gives other code.
TEST_F(WarmupTest, WhatTakesAnArtifactsPlaceStartsWithoutEvidence) {
  spec_->weights_bytes = 1 << 20;  // what is as fast has to be smaller
  deps_.placement = {.places = {{"cpu", &exact_, &turns_}}};
  deps_.verify_promotions = true;
  Serve();
  ASSERT_TRUE(Known(0).has_value());
  Replace(0);
  EXPECT_FALSE(Known(0).has_value());
  Load();
  EXPECT_EQ(Slot(0).state, BucketState::kPending);
  EXPECT_EQ(Slot(1).state, BucketState::kCompiled);
  version_->warmup().Run();
  EXPECT_EQ(Slot(0).state, BucketState::kCompiled);
  EXPECT_TRUE(Known(0).has_value());
  EXPECT_EQ(Slot(0).artifact, cache_->entries().Identify(Key(0)));
}

}  // namespace
}  // namespace stoker
