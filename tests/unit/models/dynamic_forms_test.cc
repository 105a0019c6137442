// What dynamic forms serve: requests outside all buckets, and buckets whose own
// code isn't there or gains nothing. On a clock that only moves when something
// runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
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
#include "models/version_labels.h"
#include "planning/evidence_store.h"
#include "tests/fakes/fake_artifact_loader.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_compiler.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/tensors.h"
#include "tests/unit/kernel_cache/staged_artifact.h"
#include "tests/unit/models/row_model.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// In a bucket of 8 rows, and a form of any number.
std::shared_ptr<ModelSpec> DynamicModel() {
  auto spec = RowModel({{{8}}});
  spec->compile.dynamic = DynamicForms::kBeside;
  spec->weights_bytes = 1;
  return spec;
}

constexpr size_t kBucket = 0;
constexpr size_t kForm = 1;

class DynamicFormsTest : public ::testing::Test {
 protected:
  DynamicFormsTest() {
    auto cache =
        KernelCache::Open({.root = folder_ / "cache"}, Files::Real(), metrics_);
    EXPECT_TRUE(cache.ok()) << cache.status();
    cache_ = *std::move(cache);
  }
  ~DynamicFormsTest() override { Stop(); }

  void Stop() {
    if (version_ != nullptr) version_->Stop(MonotonicTime::InfinitePast());
    version_.reset();
  }

  // Puts the artifact of a step into the cache.
  void Compiled(size_t step, const nlohmann::json& how) {
    const ArtifactKey key = Key(step);
    const auto staged = cache_->entries().NewStagingFolder(key);
    ASSERT_TRUE(staged.ok());
    StageArtifact(*staged, key, {{"model.so", how.dump()}});
    ASSERT_TRUE(cache_->entries().Commit(key, *staged).ok());
  }
  void Compiled(int form_ms, int bucket_ms, int least = 2) {
    Compiled(
        kForm,
        {{"tier", "dynamic"}, {"milliseconds", form_ms}, {"least", least}});
    Compiled(kBucket, {{"tier", "aot"}, {"milliseconds", bucket_ms}});
  }
  ArtifactKey Key(size_t step) const {
    return MakeWarmupPlan(*spec_, {})[step].request.key;
  }
  void Judge(size_t step, const Verdict& verdict) {
    const EvidenceStore evidence(*spec_, &cache_->facts(), {"here", 0}, true);
    const ArtifactId artifact = *cache_->entries().Identify(Key(step));
    evidence.WriteParity(artifact, verdict.parity);
    evidence.WriteProfit(artifact, verdict.profit);
  }
  // Loads and warms up the model.
  void Serve() {
    Load();
    version_->warmup().Run();
  }
  void Load() {
    Stop();
    deps_.cache = cache_.get();
    deps_.placement = {.places = {{"cpu", &loader_, &turns_}}};
    deps_.clock = &clock_;
    deps_.metrics =
        std::make_shared<MetricScope>(metrics_, VersionLabels(*spec_));
    deps_.machine = "here";
    version_ = std::make_unique<ModelVersion>(spec_, deps_);
    ASSERT_TRUE(version_->Load().ok());
  }
  BucketSlot::Snapshot Slot(size_t step) const {
    return version_->Buckets()[step].slot;
  }
  // The tier that answers a request of so many rows.
  std::string TierOf(int64_t rows) {
    const absl::StatusOr<InferResult> answer = AskForRows(*version_, rows);
    if (!answer.ok()) return answer.status().ToString();
    EXPECT_EQ(answer->outputs[0].shape, Shape{rows});
    version_->stats().RecordSuccess(*answer, rows, absl::ZeroDuration(),
                                    clock_.WallNow());
    return std::string(answer->tier);
  }
  double Answered(const char* tier, const char* bucket) const {
    return MetricValue(metrics_, metric::kTierRequests.name,
                       {{"tier", tier}, {"bucket", bucket}});
  }

  const TempFolder folder_;
  FakeClock clock_;
  MetricRegistry metrics_;
  DeviceTurns turns_{2, clock_};
  std::unique_ptr<KernelCache> cache_;
  FakeArtifactLoader loader_{clock_};
  std::shared_ptr<ModelSpec> spec_ = DynamicModel();
  VersionDeps deps_;
  std::unique_ptr<ModelVersion> version_;
};

TEST_F(DynamicFormsTest, ServesWhatFitsNoBucket) {
  Compiled(/*form_ms=*/10, /*bucket_ms=*/5);
  Serve();
  EXPECT_EQ(TierOf(8), "aot");
  EXPECT_EQ(TierOf(20), "dynamic");
  EXPECT_EQ(TierOf(33), "dynamic");
  EXPECT_EQ(Answered("aot", "batch=8"), 1);
  EXPECT_EQ(Answered("dynamic", "batch=any"), 2);
  EXPECT_EQ(Slot(kBucket).state, BucketState::kCompiled);
  EXPECT_EQ(Slot(kForm).state, BucketState::kCompiled);
  // Twice as fast as eager: each of its runs saved as much as it took.
  EXPECT_DOUBLE_EQ(Slot(kForm).verdict.profit.speedup, 2);
  EXPECT_NEAR(MetricValue(metrics_, metric::kSavedSeconds.name,
                          {{"bucket", "batch=any"}}),
              0.020, 1e-9);
}

TEST_F(DynamicFormsTest, WhatItsCodeIsNotForGoesToEager) {
  spec_->buckets = {{{64}}};
  Compiled(/*form_ms=*/10, /*bucket_ms=*/10, /*least=*/9);
  Serve();
  EXPECT_EQ(Slot(kForm).state, BucketState::kCompiled);
  // The sizes of the run count, not those of the request.
  EXPECT_EQ(TierOf(3), "dynamic");
  const std::shared_ptr<FakeExecutable> form = loader_.opened().front();
  form->OnlyTake([](absl::Span<const Tensor>) { return false; });
  EXPECT_EQ(TierOf(3), "eager");
}

TEST_F(DynamicFormsTest, IsTriedAtTheSizesThatItTakesOnly) {
  Compiled(/*form_ms=*/10, /*bucket_ms=*/5, /*least=*/30);
  Serve();
  // Of 2, 4, 8 and 32 rows, the last alone, and none of those that are timed.
  EXPECT_EQ(Slot(kForm).state, BucketState::kEager);
  EXPECT_THAT(Slot(kForm).detail, HasSubstr("none of the sizes"));
  EXPECT_EQ(TierOf(33), "eager");
}

TEST_F(DynamicFormsTest, SlowerThanEagerDoesNotServe) {
  Compiled(/*form_ms=*/25, /*bucket_ms=*/5);
  Serve();
  EXPECT_EQ(Slot(kForm).state, BucketState::kEager);
  EXPECT_THAT(Slot(kForm).detail, StartsWith("profit: 0.80 times as fast"));
  EXPECT_EQ(TierOf(8), "aot");
  EXPECT_EQ(TierOf(20), "eager");
}

TEST_F(DynamicFormsTest, ABucketThatGainsNothingIsLeftToIt) {
  Compiled(/*form_ms=*/10, /*bucket_ms=*/10);
  Serve();
  EXPECT_EQ(Slot(kBucket).state, BucketState::kDynamic);
  EXPECT_THAT(Slot(kBucket).detail,
              StartsWith("dynamic: 1.00 times as fast as the dynamic form"));
  EXPECT_EQ(TierOf(8), "dynamic");
  EXPECT_EQ(Answered("dynamic", "batch=8"), 1);
}

TEST_F(DynamicFormsTest, WhatWasFoundOutIsNotTimedAgain) {
  Compiled(/*form_ms=*/10, /*bucket_ms=*/10);
  Serve();
  const MonotonicTime before = clock_.Now();
  Serve();
  EXPECT_EQ(Slot(kBucket).state, BucketState::kDynamic);
  // One run of each artifact, to see that it does.
  EXPECT_EQ(clock_.Now() - before, absl::Milliseconds(20));
}

// What a bucket gains over a form says nothing of the form's successor.
TEST_F(DynamicFormsTest, AnotherFormIsAnotherComparison) {
  Compiled(/*form_ms=*/10, /*bucket_ms=*/10);
  Serve();
  EXPECT_EQ(Slot(kBucket).state, BucketState::kDynamic);
  std::filesystem::remove_all(
      cache_->entries().layers()[0].EntryFolder(Key(kForm)));
  Compiled(kForm, {{"tier", "dynamic"}, {"milliseconds", 15}, {"least", 2}});
  Serve();
  EXPECT_EQ(Slot(kBucket).state, BucketState::kCompiled);
}

TEST_F(DynamicFormsTest, WhatItHasToBeComparedWithServesMeanwhile) {
  Compiled(/*form_ms=*/10, /*bucket_ms=*/10);
  spec_->compile.dynamic = DynamicForms::kNone;
  Serve();
  EXPECT_EQ(Slot(kBucket).state, BucketState::kCompiled);
  spec_->compile.dynamic = DynamicForms::kBeside;
  Serve();  // the form's evidence is kept
  Judge(kBucket, {{.equal = true}, {.worth = true, .measured_on = "here"}});
  Load();
  EXPECT_EQ(Slot(kForm).state, BucketState::kCompiled);
  EXPECT_EQ(Slot(kBucket).state, BucketState::kPending);
  EXPECT_EQ(TierOf(8), "dynamic");
  version_->warmup().Run();
  EXPECT_EQ(Slot(kBucket).state, BucketState::kDynamic);
}

TEST_F(DynamicFormsTest, ABucketWithoutCodeOfItsOwnRunsOnIt) {
  Compiled(/*form_ms=*/10, /*bucket_ms=*/5);
  const Verdict refused{.parity = {.reason = "output 0 differs"}};
  Judge(kBucket, refused);
  Serve();
  EXPECT_EQ(Slot(kBucket).state, BucketState::kDynamic);
  EXPECT_EQ(Slot(kBucket).detail, "parity: output 0 differs");
  EXPECT_EQ(TierOf(3), "dynamic");
}

TEST_F(DynamicFormsTest, BucketsNeedNoCodeOfTheirOwnWhereItServesInstead) {
  spec_->compile.dynamic = DynamicForms::kInstead;
  Compiled(/*form_ms=*/10, /*bucket_ms=*/5);
  Serve();
  ASSERT_EQ(loader_.opened().size(), 1u);
  EXPECT_EQ(Slot(kBucket).state, BucketState::kDynamic);
  EXPECT_THAT(Slot(kBucket).detail, HasSubstr("dynamic: only"));
  EXPECT_EQ(TierOf(3), "dynamic");
  EXPECT_EQ(Answered("dynamic", "batch=8"), 1);
}

TEST_F(DynamicFormsTest, ABucketThatNoFormTakesNeedsItsOwnCodeAllTheSame) {
  spec_->compile.dynamic = DynamicForms::kInstead;
  spec_->buckets = {{{1}}, {{8}}};
  Compiled(0, {{"tier", "aot"}, {"milliseconds", 5}});
  Compiled(2, {{"tier", "dynamic"}, {"milliseconds", 10}, {"least", 2}});
  Serve();
  EXPECT_EQ(Slot(0).state, BucketState::kCompiled);
  EXPECT_EQ(Slot(1).state, BucketState::kDynamic);
  EXPECT_EQ(TierOf(1), "aot");
  EXPECT_EQ(TierOf(3), "dynamic");
}

// Buckets of 2, 4 and 8 rows, and a form that takes 10 ms. Artifacts in the
// cache have no evidence yet.
class DynamicFirstTest : public DynamicFormsTest {
 protected:
  DynamicFirstTest() {
    spec_->compile.dynamic = DynamicForms::kFirst;
    spec_->buckets = {{{2}}, {{4}}, {{8}}};
    Compiled(3, {{"tier", "dynamic"}, {"milliseconds", 10}, {"least", 2}});
    deps_.compiler = &compiler_;
  }
  ~DynamicFirstTest() override { Stop(); }

  void Own(size_t bucket, int ms) {
    Compiled(bucket, {{"tier", "aot"}, {"milliseconds", ms}});
  }
  // Lets requests leave the device alone for a second look at the form, where
  // nobody had one yet, and for as many tries.
  void Improve(bool second_look, int tries) {
    Thread job("improve", [this] { version_->warmup().Improve(); });
    for (int i = 0; i < tries + (second_look ? 1 : 0); ++i) {
      clock_.BlockUntilWaiters(2);  // the other is the batcher's timer
      clock_.Advance(absl::Seconds(2));
    }
    job.Join();
  }

  FakeCompiler compiler_{[this](const CompileRequest& request)
                             -> std::optional<absl::StatusOr<CacheEntry>> {
    return CommitArtifact(
        *cache_, request.key,
        {{"model.so", R"({"tier": "aot", "milliseconds": 10})"}});
  }};
};

TEST_F(DynamicFirstTest, AFormIsEnoughToBeReady) {
  Serve();
  EXPECT_THAT(compiler_.asked(), IsEmpty());
  for (size_t bucket = 0; bucket < 3; ++bucket) {
    EXPECT_EQ(Slot(bucket).state, BucketState::kDynamic);
    EXPECT_THAT(Slot(bucket).detail, HasSubstr("was not tried"));
  }
  EXPECT_EQ(TierOf(8), "dynamic");
}

TEST_F(DynamicFirstTest, OneBucketThatGainsNothingSparesTheOthers) {
  Serve();
  Improve(/*second_look=*/true, /*tries=*/1);
  EXPECT_THAT(compiler_.asked(), ElementsAre("batch=2"));
  EXPECT_THAT(Slot(0).detail, StartsWith("dynamic: 1.00 times as fast"));
  EXPECT_THAT(
      Slot(2).detail,
      StartsWith("dynamic: not compiled, like batch=2, dynamic: 1.00 times"));
  EXPECT_EQ(TierOf(8), "dynamic");
  // What was found out is known the next time.
  Serve();
  Improve(/*second_look=*/false, /*tries=*/0);
  EXPECT_EQ(compiler_.asked().size(), 1u);
  EXPECT_THAT(Slot(2).detail, HasSubstr("not compiled, like batch=2"));
}

TEST_F(DynamicFirstTest, OwnCodeIsTriedForAsLongAsItGains) {
  Own(0, 5);
  Own(1, 10);
  Own(2, 5);
  Serve();
  EXPECT_EQ(TierOf(2), "dynamic");
  Improve(/*second_look=*/true, /*tries=*/2);
  EXPECT_EQ(Slot(0).state, BucketState::kCompiled);
  EXPECT_EQ(Slot(1).state, BucketState::kDynamic);
  EXPECT_EQ(Slot(2).state, BucketState::kDynamic);
  EXPECT_EQ(TierOf(2), "aot");
  EXPECT_EQ(TierOf(8), "dynamic");
  // A version that comes later has it as soon as it is loaded.
  Load();
  EXPECT_EQ(TierOf(2), "aot");
}

TEST_F(DynamicFirstTest, WhereNothingIsCompiledNothingIsTried) {
  deps_.compiles = false;
  Serve();
  Improve(/*second_look=*/true, /*tries=*/0);
  EXPECT_THAT(compiler_.asked(), IsEmpty());
  EXPECT_EQ(Slot(0).state, BucketState::kDynamic);
}

TEST_F(DynamicFirstTest, ABucketThatTheFormIsNotForIsCompiledAtOnce) {
  spec_->buckets = {{{1}}, {{8}}};
  Serve();
  EXPECT_THAT(compiler_.asked(), ElementsAre("batch=1"));
}

TEST_F(DynamicFormsTest, WhenItIsLostEagerAnswers) {
  Compiled(/*form_ms=*/10, /*bucket_ms=*/10);
  Serve();
  const std::shared_ptr<FakeExecutable> form = loader_.opened().front();
  ASSERT_EQ(form->tier(), "dynamic");
  form->FailNext(1, absl::InternalError("broken"));
  EXPECT_EQ(TierOf(20), "eager");
  EXPECT_EQ(Slot(kForm).state, BucketState::kEager);
  EXPECT_THAT(Slot(kForm).detail, HasSubstr("broken"));
  EXPECT_EQ(Slot(kBucket).state, BucketState::kEager);
  EXPECT_EQ(TierOf(8), "eager");
}

// An operator in it may refuse the values, which is no fault of the code.
TEST_F(DynamicFormsTest, WhatEagerRefusesTooIsHeldAgainstNobody) {
  Compiled(/*form_ms=*/10, /*bucket_ms=*/5);
  Serve();
  EXPECT_EQ(TierOf(33), "dynamic");
  for (const auto& compiled : loader_.opened()) {
    compiled->FailNext(1, absl::InternalError("an operator failed"));
  }
  loader_.EagerSays(absl::InvalidArgumentError("score above 1"));
  EXPECT_THAT(TierOf(8), HasSubstr("INVALID_ARGUMENT: score above 1"));
  EXPECT_THAT(TierOf(20), HasSubstr("INVALID_ARGUMENT: score above 1"));
  EXPECT_EQ(TierOf(8), "aot");
  EXPECT_EQ(TierOf(20), "dynamic");
  EXPECT_EQ(Slot(kBucket).state, BucketState::kCompiled);
  EXPECT_EQ(Slot(kForm).state, BucketState::kCompiled);
}

TEST_F(DynamicFormsTest, WhereEagerFailsAsWellNothingIsShownAgainstIt) {
  Compiled(/*form_ms=*/10, /*bucket_ms=*/5);
  Serve();
  const std::shared_ptr<FakeExecutable> bucket = loader_.opened().back();
  ASSERT_EQ(bucket->tier(), "aot");
  bucket->FailNext(1, absl::InternalError("an operator failed"));
  loader_.EagerSays(absl::ResourceExhaustedError("no memory"));
  EXPECT_THAT(TierOf(8), HasSubstr("RESOURCE_EXHAUSTED: no memory"));
  EXPECT_EQ(TierOf(8), "aot");
}

TEST_F(DynamicFormsTest, ThereIsNoneUnlessAskedFor) {
  spec_->compile.dynamic = DynamicForms::kNone;
  EXPECT_THAT(SizesOfForms(*spec_), IsEmpty());
  Compiled(kBucket, {{"tier", "aot"}, {"milliseconds", 5}});
  Serve();
  EXPECT_EQ(version_->Buckets().size(), 1u);
  EXPECT_EQ(TierOf(20), "eager");
}

}  // namespace
}  // namespace stoker
