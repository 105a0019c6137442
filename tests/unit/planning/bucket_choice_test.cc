#include "planning/bucket_choice.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "metrics/metrics.h"
#include "planning/evidence_store.h"
#include "planning/warmup_plan.h"
#include "promotion/verdict.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/kernel_cache/staged_artifact.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

const Toolchain kToolchain{.cpu = {"x86-64-v3", 256},
                           .torch = "2.11.0",
                           .torch_git = "70d99e9",
                           .cxx = "g++ 12"};

std::vector<ShapeBucket> Grid(const std::vector<int64_t>& batches,
                              const std::vector<int64_t>& lengths) {
  std::vector<ShapeBucket> buckets;
  for (const int64_t batch : batches) {
    for (const int64_t length : lengths) buckets.push_back({{batch, length}});
  }
  return buckets;
}

ModelSpec TokenModel() {
  ModelSpec spec;
  spec.name = "tokens";
  spec.program_digest = std::string(64, 'a');
  spec.weights_digest = std::string(64, 'b');
  spec.dimensions = {{"batch", "s0", 1, 64, true},
                     {"tokens", "s1", 1, 512, true}};
  spec.batch_dimension = 0;
  spec.max_batch_size = 8;
  spec.buckets = Grid({1, 8}, {16, 32, 64, 128});
  return spec;
}

TrafficRecord Traffic(std::vector<ShapeCount> requests,
                      std::vector<ShapeCount> runs = {}) {
  return {.dimensions = {"batch", "tokens"},
          .requests = std::move(requests),
          .runs = std::move(runs),
          .chosen = std::nullopt};
}

// Sentences of about 20 tokens, one at a time.
TrafficRecord Sentences(std::vector<ShapeCount> runs = {}) {
  std::mt19937 random(1);
  std::lognormal_distribution<double> length(std::log(20.0), 0.4);
  ShapeSketch sketch(512);
  for (int i = 0; i < 5000; ++i) {
    sketch.Record(
        {1, std::clamp<int64_t>(std::llround(length(random)), 4, 120)});
  }
  return Traffic(sketch.Counts(), std::move(runs));
}

BucketExperience Guess() {
  BucketExperience guess;
  guess.compiled = FitRunCost({});
  guess.eager = {.fixed = 32, .per_element = 2, .mean_error = std::nullopt};
  return guess;
}

BucketChoice Choose(const ModelSpec& spec, const TrafficRecord& traffic,
                    int most = 8) {
  const auto choice = ChooseBuckets(spec, spec.buckets, traffic, Guess(), most);
  EXPECT_TRUE(choice.ok()) << choice.status();
  return choice.value_or(BucketChoice());
}

std::vector<ShapeBucket> Proposed(const BucketChoice& choice) {
  std::vector<ShapeBucket> buckets;
  for (const auto& use : choice.proposal.uses) buckets.push_back(use.bucket);
  return buckets;
}

int64_t LargestBatch(const BucketChoice& choice) {
  int64_t largest = 0;
  for (const auto& use : choice.proposal.uses) {
    largest = std::max(largest, use.bucket.sizes[0]);
  }
  return largest;
}

TEST(ChooseBucketsTest, BeatsPowersOfTwoOnALogNormalMix) {
  const BucketChoice choice = Choose(TokenModel(), Sentences());
  EXPECT_EQ(choice.requests, 5000u);
  EXPECT_GT(choice.saving, 0.05);
  EXPECT_NEAR(
      choice.saving,
      1 - choice.proposal.cost_per_request / choice.today.cost_per_request,
      1e-12);
  EXPECT_LE(choice.proposal.uses.size(), 8u);
  EXPECT_LT(choice.proposal.padding, choice.today.padding);
  double requests = choice.proposal.outside;
  for (const auto& use : choice.proposal.uses) requests += use.requests;
  EXPECT_NEAR(requests, 1, 1e-9);
}

TEST(ChooseBucketsTest, QuietTrafficKeepsTheAbilityToBatch) {
  EXPECT_EQ(LargestBatch(Choose(TokenModel(), Sentences({{{1, 1}, 5000}}))), 8);
}

TEST(ChooseBucketsTest, MoreBucketsGoWhereTheRunsAre) {
  const auto full = [](const BucketChoice& choice) {
    const auto buckets = Proposed(choice);
    return std::count_if(buckets.begin(), buckets.end(),
                         [](const auto& b) { return b.sizes[0] == 8; });
  };
  const auto quiet = full(Choose(TokenModel(), Sentences({{{1, 1}, 5000}})));
  const auto busy =
      full(Choose(TokenModel(), Sentences({{{1, 1}, 100}, {{8, 2}, 600}})));
  EXPECT_LT(quiet, busy);
}

TEST(ChooseBucketsTest, RequestsOfSeveralRowsGetTheirOwnSize) {
  const auto buckets = Proposed(
      Choose(TokenModel(), Traffic({{{5, 16}, 1000}}, {{{5, 1}, 1000}}), 3));
  EXPECT_THAT(buckets, testing::Contains(ShapeBucket{{5, 16}}));
}

TEST(ChooseBucketsTest, WhatWouldBeRefusedIsHeld) {
  ModelSpec spec = TokenModel();
  spec.unmatched = Unmatched::kReject;
  TrafficRecord traffic = Sentences();
  traffic.requests.push_back({{8, 128}, 1});
  const BucketChoice choice = Choose(spec, traffic, 2);
  EXPECT_EQ(choice.proposal.outside, 0);
  EXPECT_THAT(Proposed(choice), testing::Contains(ShapeBucket{{8, 128}}));
}

TEST(ChooseBucketsTest, BoundsOfThisVersion) {
  ModelSpec spec = TokenModel();
  spec.dimensions[1].max = 64;
  spec.buckets = Grid({1, 8}, {16, 64});
  const BucketChoice choice =
      Choose(spec, Traffic({{{1, 500}, 1000}, {{9, 20}, 70}, {{1, 50}, 10}}));
  EXPECT_EQ(choice.requests, 10u);
  for (const ShapeBucket& bucket : Proposed(choice)) {
    EXPECT_LE(bucket.sizes[1], 64);
    EXPECT_LE(bucket.sizes[0], 8);
  }
}

TEST(ChooseBucketsTest, OddRecords) {
  const ModelSpec spec = TokenModel();
  const BucketExperience guess = Guess();
  for (const TrafficRecord& nothing :
       {Traffic({}), Traffic({{{1}, 5}}), Traffic({{{1, 4000}, 5}}),
        Traffic({}, {{{8, 2}, 100}})}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(
        ChooseBuckets(spec, spec.buckets, nothing, guess, 8).status()));
  }
  // More rows than a run can have, no rows, and no bucket today.
  const TrafficRecord odd =
      Traffic({{{1, 20}, 500}}, {{{9000, 2}, 10}, {{0, 2}, 3}, {{0, 1}, 3}});
  EXPECT_TRUE(ChooseBuckets(spec, {}, odd, guess, 8).ok());
  // Without dimensions, and without a batch dimension.
  ModelSpec fixed;
  fixed.buckets = {ShapeBucket{}};
  EXPECT_EQ(Choose(fixed, Traffic({{{}, 5}})).saving, 0);
  ModelSpec alone = TokenModel();
  alone.batch_dimension.reset();
  alone.max_batch_size = 0;
  EXPECT_GT(Choose(alone, Sentences()).saving, 0);
}

BucketExperience Measured() {
  BucketExperience known = Guess();
  known.compiled = {.fixed = 0.001, .per_element = 1e-5, .mean_error = 0.0};
  known.eager = {.fixed = 0.002, .per_element = 2e-5, .mean_error = 0.0};
  known.compile_seconds = 20;
  return known;
}

TEST(RequestsToPayBackTest, ByTheShareOfTheRequestsAndWhatTheirRunsSave) {
  ModelSpec spec = TokenModel();
  spec.buckets = Grid({1}, {16, 64, 128});
  const auto pay_back = RequestsToPayBack(
      spec, Traffic({{{1, 10}, 300}, {{1, 100}, 100}}), Measured());
  ASSERT_TRUE(pay_back.ok()) << pay_back.status();
  // Three of four requests save 1 ms and 10 us per element of the bucket.
  EXPECT_NEAR((*pay_back)[0], 20 / (0.75 * (0.001 + 16e-5)), 1e-6);
  EXPECT_TRUE(std::isinf((*pay_back)[1]));
  EXPECT_NEAR((*pay_back)[2], 20 / (0.25 * (0.001 + 128e-5)), 1e-6);
}

TEST(RequestsToPayBackTest, RequestsThatShareRunsPayBackLater) {
  ModelSpec spec = TokenModel();
  spec.buckets = Grid({1, 8}, {16});
  const std::vector<ShapeCount> requests = {{{1, 16}, 800}};
  const auto pay_back =
      RequestsToPayBack(spec, Traffic(requests, {{{8, 2}, 100}}), Measured());
  ASSERT_TRUE(pay_back.ok()) << pay_back.status();
  EXPECT_TRUE(std::isinf((*pay_back)[0]));
  EXPECT_NEAR((*pay_back)[1], 20 / ((0.001 + 128e-5) / 8), 1e-6);
}

TEST(RequestsToPayBackTest, WhatSavesNothingNeverDoes) {
  BucketExperience known = Measured();
  known.eager = known.compiled;
  const auto pay_back =
      RequestsToPayBack(TokenModel(), Traffic({{{1, 10}, 300}}), known);
  ASSERT_TRUE(pay_back.ok()) << pay_back.status();
  for (const double requests : *pay_back) EXPECT_TRUE(std::isinf(requests));
}

TEST(RequestsToPayBackTest, WithoutTrafficOrMeasurementsNobodyKnows) {
  EXPECT_THAT(
      std::string(RequestsToPayBack(TokenModel(), Traffic({}), Measured())
                      .status()
                      .message()),
      HasSubstr("no traffic of model tokens"));
  EXPECT_THAT(std::string(RequestsToPayBack(TokenModel(),
                                            Traffic({{{1, 10}, 300}}), Guess())
                              .status()
                              .message()),
              HasSubstr("no bucket of model tokens was measured"));
}

TEST(AllowedBucketsTest, TheTightestLimit) {
  BucketExperience known = Guess();
  known.compile_seconds = 10;
  known.artifact_bytes = 2 << 20;
  const auto allowed = [&](int most, std::optional<double> seconds,
                           std::optional<int64_t> bytes) {
    return AllowedBuckets({most, seconds, bytes}, known);
  };
  EXPECT_EQ(allowed(8, std::nullopt, std::nullopt), 8);
  EXPECT_EQ(allowed(8, 35, std::nullopt), 3);
  EXPECT_EQ(allowed(8, 35, 5 << 20), 2);
  EXPECT_EQ(allowed(8, 1, 1), 1);
  EXPECT_EQ(allowed(9999, std::nullopt, std::nullopt), kMostBuckets);
  known.compile_seconds = 0;
  EXPECT_EQ(allowed(8, kAssumedCompileSeconds * 2, std::nullopt), 2);
}

TEST(ChooseAutoBucketsTest, ChangesOnceAndThenStays) {
  ModelSpec spec = TokenModel();
  spec.buckets = Grid({1, 8}, {8, 32, 128, 512});
  TrafficRecord traffic = Sentences();
  const AutoBuckets first = ChooseAutoBuckets(spec, traffic, Guess());
  EXPECT_TRUE(first.changed);
  EXPECT_LE(first.buckets.size(), spec.buckets.size());
  EXPECT_THAT(first.why, HasSubstr("for 5000 requests"));
  traffic.chosen = first.buckets;
  const AutoBuckets second = ChooseAutoBuckets(spec, traffic, Guess());
  EXPECT_FALSE(second.changed);
  EXPECT_EQ(second.buckets, first.buckets);
  EXPECT_THAT(second.why, HasSubstr("those chosen last stay"));
}

TEST(ChooseAutoBucketsTest, WithoutEnoughTrafficTheDefaultOnes) {
  const ModelSpec spec = TokenModel();
  for (const TrafficRecord& few : {Traffic({}), Traffic({{{1, 20}, 99}})}) {
    const AutoBuckets chosen = ChooseAutoBuckets(spec, few, Guess());
    EXPECT_FALSE(chosen.changed);
    EXPECT_EQ(chosen.buckets, spec.buckets);
    EXPECT_THAT(chosen.why, HasSubstr("default"));
  }
}

TEST(ChooseAutoBucketsTest, AChoiceThatTheVersionCanNotHaveIsForgotten) {
  const ModelSpec spec = TokenModel();
  TrafficRecord traffic = Traffic({});
  for (const ShapeBucket& bad : {ShapeBucket{{1, 513}}, ShapeBucket{{9, 16}},
                                 ShapeBucket{{0, 16}}, ShapeBucket{{16}}}) {
    traffic.chosen = {bad};
    EXPECT_EQ(ChooseAutoBuckets(spec, traffic, Guess()).buckets, spec.buckets);
  }
}

const TimedOn kHere{"here", 2};

class KnownBucketsTest : public testing::Test {
 protected:
  KnownBucketsTest() {
    auto opened =
        KernelCache::Open({.root = folder_ / "cache"}, Files::Real(), metrics_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    cache_ = *std::move(opened);
  }

  // An entry of each bucket of the spec, and what was found on so many threads.
  void Fill(const ModelSpec& spec, int threads,
            const std::function<Profit(const ShapeBucket&)>& time,
            const std::string& machine = "here") {
    for (const WarmupStep& step : MakeWarmupPlan(spec, kToolchain)) {
      const ArtifactKey& key = step.request.key;
      if (!cache_->entries().layers().front().ReadManifest(key).ok()) {
        Commit(step);
      }
      const auto& bucket = spec.buckets[static_cast<size_t>(step.bucket)];
      Profit profit = time(bucket);
      profit.measured_on = machine;
      profit.threads = threads;
      EvidenceStore(spec, &cache_->facts(), {}, true)
          .WriteProfit(*cache_->entries().Identify(key), profit);
    }
  }

  void Commit(const WarmupStep& step) {
    const ArtifactKey& key = step.request.key;
    const std::string folder = cache_->entries().NewStagingFolder(key).value();
    StageArtifact(folder, key);
    nlohmann::json manifest = ManifestOf(key, SmallArtifact());
    manifest["factors"] = step.request.factors;
    manifest["seconds"] = 12;
    WriteBytes(folder + "/manifest.json", manifest.dump());
    ASSERT_TRUE(cache_->entries().Commit(key, folder).ok());
  }

  TempFolder folder_{TempFolder::Where::kMemory};
  MetricRegistry metrics_;
  std::unique_ptr<KernelCache> cache_;
};

TEST_F(KnownBucketsTest, FitsWhatWasTimedOfTheSameProgramHere) {
  const ModelSpec spec = TokenModel();
  const auto timed = [](const ShapeBucket& bucket) {
    const double seconds = 0.002 + 1e-4 * Volume(bucket.sizes);
    return Profit{.worth = true,
                  .speedup = 2,
                  .candidate_seconds = seconds,
                  .incumbent_seconds = 2 * seconds};
  };
  Fill(spec, 2, timed);
  // Other threads, machines and programs are others' matter.
  const auto slow = [](const ShapeBucket&) {
    return Profit{.worth = true,
                  .speedup = 1,
                  .candidate_seconds = 9,
                  .incumbent_seconds = 9};
  };
  Fill(spec, 4, slow);
  Fill(spec, 2, slow, "another");
  ModelSpec other = spec;
  other.program_digest = std::string(64, 'c');
  Fill(other, 2, slow);

  // Buckets that nobody serves any more tell as much.
  ModelSpec next = spec;
  next.buckets = {{{3, 7}}};
  const BucketExperience known = KnownBuckets(*cache_, next, kHere, kToolchain);
  EXPECT_EQ(known.measured_buckets, 8);
  EXPECT_NEAR(known.compiled.fixed, 0.002, 1e-6);
  EXPECT_NEAR(known.compiled.per_element, 1e-4, 1e-8);
  EXPECT_NEAR(known.eager.per_element, 2e-4, 1e-8);
  EXPECT_DOUBLE_EQ(known.compile_seconds, 12);
  EXPECT_GT(known.artifact_bytes, 100);
}

// Where a neighbour has always been, nothing was timed on all threads.
TEST_F(KnownBucketsTest, OtherThreadsTellMoreThanNothing) {
  ModelSpec spec = TokenModel();
  spec.buckets = Grid({1}, {16, 64});
  Fill(spec, 1, [](const ShapeBucket& bucket) {
    return Profit{.worth = true,
                  .speedup = 2,
                  .candidate_seconds = 1e-3 * Volume(bucket.sizes),
                  .incumbent_seconds = 2e-3 * Volume(bucket.sizes)};
  });
  const BucketExperience known = KnownBuckets(*cache_, spec, kHere, kToolchain);
  EXPECT_EQ(known.measured_buckets, 2);
  EXPECT_NEAR(known.compiled({1, 64}), 0.064, 1e-6);
}

TEST_F(KnownBucketsTest, WhatWasRefusedRunsEager) {
  ModelSpec spec = TokenModel();
  spec.buckets = Grid({1}, {16, 64});
  Fill(spec, 2, [](const ShapeBucket& bucket) {
    return Profit{.worth = false,
                  .speedup = 0.5,
                  .candidate_seconds = 8,
                  .incumbent_seconds = 1e-3 * Volume(bucket.sizes)};
  });
  const BucketExperience known = KnownBuckets(*cache_, spec, kHere, kToolchain);
  EXPECT_NEAR(known.compiled({1, 64}), 0.064, 1e-6);
}

TEST_F(KnownBucketsTest, NothingIsKnown) {
  const BucketExperience known =
      KnownBuckets(*cache_, TokenModel(), kHere, kToolchain);
  EXPECT_FALSE(known.compiled.measured());
  EXPECT_EQ(known.measured_buckets, 0);
  EXPECT_EQ(known.eager.fixed, 2 * kAssumedLaunchElements);
}

}  // namespace
}  // namespace stoker
