#include "models/candidate_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "batching/device_turns.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "metrics/metrics.h"
#include "models/padded_run.h"
#include "tests/fakes/fake_batch_runner.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_executable.h"
#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ShapeBucket kBucket{{8}};

// y = x, row by row.
ModelSpec RowModel() {
  ModelSpec spec;
  spec.name = "rows";
  spec.dimensions = {{"batch", "s0", 1, 64, true}};
  spec.inputs.resize(1);
  spec.inputs[0].name = "x";
  spec.inputs[0].dims = {DimExpr::Dimension(0)};
  spec.outputs = {{"y", DataType::kFp32, {DimExpr::Dimension(0)}}};
  spec.batch_dimension = 0;
  spec.max_batch_size = 8;
  spec.buckets = {kBucket};
  return spec;
}

absl::StatusOr<RunResult> Same(absl::Span<const Tensor> inputs) {
  RunResult result;
  result.outputs.assign(inputs.begin(), inputs.end());
  return result;
}

// As a kernel that clamps would.
FakeExecutable::Script ClampedAt(float most) {
  return [most](absl::Span<const Tensor> inputs) {
    std::vector<float> values = ValuesOf<float>(inputs[0]);
    for (float& value : values) value = std::clamp(value, -most, most);
    RunResult result;
    result.outputs = {
        MakeTensor<float>(DataType::kFp32, inputs[0].shape, values)};
    return absl::StatusOr<RunResult>(std::move(result));
  };
}

class CandidateCheckTest : public ::testing::Test {
 protected:
  ~CandidateCheckTest() override {
    batcher_.Stop(MonotonicTime::InfinitePast());
  }

  struct Evidence {
    Verdict verdict;
    std::string reproducer;
  };
  using Look = CandidateCheck::Look;

  // Parity, and then the speed of what is equal.
  absl::StatusOr<Evidence> Check(
      const std::vector<CandidateCheck::Recorded>& recorded = {}) {
    return Check(eager_, candidate_, recorded);
  }

  absl::StatusOr<Evidence> Check(
      Executable& eager, Executable& candidate,
      const std::vector<CandidateCheck::Recorded>& recorded,
      Look look = Look::kSecond) {
    const CandidateCheck check({.spec = &spec_,
                                .layout = &layout_,
                                .made_up = &made_up_,
                                .device_threads = &device_threads_,
                                .clock = &clock_,
                                .reference = nullptr,
                                .machine = "here"});
    ASSIGN_OR_RETURN(CandidateCheck::Evidence found,
                     check.CheckParity(eager, candidate, kBucket, recorded));
    Evidence evidence{{.parity = std::move(found.parity)},
                      std::move(found.reproducer)};
    if (!evidence.verdict.parity.equal) return evidence;
    ASSIGN_OR_RETURN(evidence.verdict.profit,
                     check.Measure(eager, candidate, kBucket,
                                   /*candidate_bytes=*/1, look));
    return evidence;
  }

  // A request with these values.
  static CandidateCheck::Recorded Request(const std::vector<float>& values) {
    const auto rows = static_cast<int64_t>(values.size());
    return {{rows}, {MakeTensor<float>(DataType::kFp32, {rows}, values)}};
  }

  FakeClock clock_;
  MetricRegistry metrics_;
  const ModelSpec spec_ = RowModel();
  const BatchLayout layout_ = LayoutOf(spec_);
  const MadeUpInputs made_up_{spec_};
  FakeExecutable eager_{"eager", Same};
  FakeExecutable candidate_{"aot", Same};
  FakeBatchRunner runner_{spec_.buckets, {true}, [](int, auto inputs) {
                            return BatchRunner::Outcome{Same(inputs), "eager"};
                          }};
  DeviceTurns turns_{1, clock_};
  Batcher batcher_{
      {.name = "rows:1", .labels = {{"model", "rows"}, {"version", "1"}}},
      layout_,
      runner_,
      {{"cpu", &turns_}},
      clock_,
      metrics_};
  FakeExecutionContext* context_ = nullptr;
  const DeviceThreads::Contexts contexts_ = [this] {
    auto context =
        std::make_unique<FakeExecutionContext>(/*threads=*/2, /*fewest=*/1);
    context_ = context.get();
    DeviceThreads::Contexts contexts;
    contexts.push_back(std::move(context));
    return contexts;
  }();
  const DeviceThreads device_threads_{batcher_, contexts_, {}};
};

TEST_F(CandidateCheckTest, WhatIsTheSameAndFasterIsPromoted) {
  eager_.TakeTime(clock_, absl::Milliseconds(2));
  candidate_.TakeTime(clock_, absl::Milliseconds(1));
  const auto evidence = Check();
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  EXPECT_TRUE(evidence->verdict.promote()) << evidence->verdict.reason();
  EXPECT_NEAR(evidence->verdict.profit.speedup, 2, 1e-6);
  EXPECT_EQ(evidence->verdict.parity.cases.size(), 5u);
}

TEST_F(CandidateCheckTest, NewWeightsOfKnownCodeAreTriedAtFewerSizes) {
  const CandidateCheck check({.spec = &spec_,
                              .layout = &layout_,
                              .made_up = &made_up_,
                              .device_threads = &device_threads_,
                              .clock = &clock_});
  const std::vector<CandidateCheck::Recorded> recorded = {Request({1, 2})};
  const auto evidence = check.CheckParity(eager_, candidate_, kBucket, recorded,
                                          CandidateCheck::Proved::kCode);
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  std::vector<std::string> tried;
  for (const ParityCase& one : evidence->parity.cases) {
    tried.push_back(one.sizes + (one.extremes   ? " extremes"
                                 : one.recorded ? " recorded"
                                                : ""));
  }
  EXPECT_THAT(tried, ElementsAre("batch=8", "batch=1", "batch=8 extremes",
                                 "batch=2 recorded"));
}

// With minutes for a run nobody waits for all cases and pairs: two cases, of
// which one is padded, and one pair, whose outcome isn't clear.
TEST_F(CandidateCheckTest, AModelThatRunsForMinutesIsJudgedByFewRuns) {
  eager_.TakeTime(clock_, absl::Minutes(4));
  candidate_.TakeTime(clock_, absl::Minutes(2));
  const MonotonicTime start = clock_.Now();
  const auto evidence = Check();
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  EXPECT_TRUE(evidence->verdict.promote()) << evidence->verdict.reason();
  EXPECT_EQ(evidence->verdict.parity.cases.size(), 2u);
  EXPECT_EQ(evidence->verdict.profit.pairs, 1);
  EXPECT_FALSE(evidence->verdict.profit.clear);
  EXPECT_LE(clock_.Now() - start, absl::Minutes(50));
}

// An encoder's compiled form was 1.16 times as fast as eager on two cores, and
// 0.79 times where another process left it one.
TEST_F(CandidateCheckTest, WhatIsSlowerOnABusyHostIsEagersThere) {
  eager_.TakeTime(clock_, absl::Microseconds(530));
  candidate_.TakeTime(clock_, absl::Microseconds(450),
                      /*alone=*/absl::Microseconds(700));
  const auto evidence = Check();
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  const Profit& profit = evidence->verdict.profit;
  EXPECT_TRUE(evidence->verdict.promote()) << profit.reason;
  EXPECT_NEAR(profit.speedup, 1.18, 0.01);
  EXPECT_FALSE(profit.worth_on_fewer);
  EXPECT_NEAR(profit.speedup_on_fewer, 0.76, 0.01);
  EXPECT_THAT(profit.reason,
              HasSubstr("; on 1 of 2 threads 0.76 times as fast"));
  EXPECT_EQ(profit.threads, 2);
}

// Somebody waits for it: five runs of each that agree are enough to serve with,
// and not to leave it at that.
TEST_F(CandidateCheckTest, AFirstLookEndsAtWhatIsPromising) {
  eager_.TakeTime(clock_, absl::Milliseconds(400));
  candidate_.TakeTime(clock_, absl::Milliseconds(200));
  const auto evidence = Check(eager_, candidate_, {}, Look::kFirst);
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  const Profit& profit = evidence->verdict.profit;
  EXPECT_TRUE(evidence->verdict.promote()) << profit.reason;
  EXPECT_EQ(profit.pairs, 5);
  EXPECT_FALSE(profit.clear);
  EXPECT_EQ(profit.speedup_on_fewer, 0);
  EXPECT_TRUE(profit.worth_on_fewer);
}

TEST_F(CandidateCheckTest, AFirstLookAtWhatIsSlowerGoesOn) {
  eager_.TakeTime(clock_, absl::Milliseconds(20));
  candidate_.TakeTime(clock_, absl::Milliseconds(40));
  const auto evidence = Check(eager_, candidate_, {}, Look::kFirst);
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  EXPECT_FALSE(evidence->verdict.promote());
  EXPECT_EQ(evidence->verdict.profit.pairs, 11);
  EXPECT_TRUE(evidence->verdict.profit.clear);
}

// However clear it is on two threads, nothing is known of one.
TEST_F(CandidateCheckTest, AFirstLookLeavesFewerThreadsToTheSecond) {
  eager_.TakeTime(clock_, absl::Microseconds(530));
  candidate_.TakeTime(clock_, absl::Microseconds(450),
                      /*alone=*/absl::Microseconds(700));
  const auto evidence = Check(eager_, candidate_, {}, Look::kFirst);
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  EXPECT_TRUE(evidence->verdict.promote());
  EXPECT_TRUE(evidence->verdict.profit.worth_on_fewer);
  EXPECT_FALSE(evidence->verdict.profit.clear);
}

TEST_F(CandidateCheckTest, WhatGainsLessOnABusyHostIsPromoted) {
  eager_.TakeTime(clock_, absl::Microseconds(600), absl::Microseconds(1200));
  candidate_.TakeTime(clock_, absl::Microseconds(300),
                      /*alone=*/absl::Microseconds(1000));
  const auto evidence = Check();
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  EXPECT_TRUE(evidence->verdict.promote()) << evidence->verdict.reason();
  EXPECT_NEAR(evidence->verdict.profit.speedup, 2, 0.01);
  EXPECT_TRUE(evidence->verdict.profit.worth_on_fewer);
  EXPECT_NEAR(evidence->verdict.profit.speedup_on_fewer, 1.2, 0.01);
}

TEST_F(CandidateCheckTest, OutOfMemoryInTheCompiledFormOnlyIsNoVerdict) {
  candidate_.FailNext(1, absl::ResourceExhaustedError("out of memory"));
  const auto evidence = Check();
  EXPECT_TRUE(absl::IsResourceExhausted(evidence.status()))
      << evidence.status();
}

// Nothing can be compared with it, and that isn't the candidate's fault.
TEST_F(CandidateCheckTest, EagerThatAnswersDifferentlyEachTimeIsNamed) {
  float drift = 0;
  FakeExecutable unsteady("eager", [&](absl::Span<const Tensor> inputs) {
    std::vector<float> values = ValuesOf<float>(inputs[0]);
    drift += 1;
    for (float& value : values) value += drift;
    RunResult result;
    result.outputs = {
        MakeTensor<float>(DataType::kFp32, inputs[0].shape, values)};
    return absl::StatusOr<RunResult>(std::move(result));
  });
  const auto evidence = Check(unsteady, candidate_, {});
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  EXPECT_EQ(evidence->verdict.refusal(), "parity");
  EXPECT_THAT(evidence->verdict.reason(), HasSubstr("differently each time"));
  EXPECT_TRUE(evidence->reproducer.empty());
}

// What a candidate leaves unwritten must not happen to be right.
TEST_F(CandidateCheckTest, OnlyTheCandidateFindsItsMemoryPoisoned) {
  FakeExecutable eager("eager", [&](absl::Span<const Tensor> inputs) {
    EXPECT_FALSE(context_->poisoned());
    return Same(inputs);
  });
  int poisoned = 0;
  FakeExecutable candidate("aot", [&](absl::Span<const Tensor> inputs) {
    if (context_->poisoned()) ++poisoned;
    return Same(inputs);
  });
  const auto evidence = Check(eager, candidate, {Request({1, 2})});
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  EXPECT_EQ(evidence->verdict.parity.cases.size(), 6u);
  EXPECT_EQ(poisoned, 6);  // and no run that is timed
}

TEST_F(CandidateCheckTest, TheEndsOfARangeShowWhatItsMiddleDoesNot) {
  FakeExecutable clamping("aot", ClampedAt(50));
  const auto evidence = Check(eager_, clamping, {});
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  EXPECT_EQ(evidence->verdict.refusal(), "parity");
  EXPECT_THAT(evidence->verdict.reason(), HasSubstr("extremes of seed 4"));
  EXPECT_TRUE(evidence->verdict.parity.cases.back().extremes);
}

// Eager overflows there, or refuses them: there is nothing to compare with.
TEST_F(CandidateCheckTest, ExtremesThatEagerDoesNotAnswerArePassedOver) {
  FakeExecutable overflowing("eager", [](absl::Span<const Tensor> inputs) {
    std::vector<float> values = ValuesOf<float>(inputs[0]);
    for (float& value : values) {
      if (std::abs(value) > 50) value = std::numeric_limits<float>::infinity();
    }
    RunResult result;
    result.outputs = {
        MakeTensor<float>(DataType::kFp32, inputs[0].shape, values)};
    return absl::StatusOr<RunResult>(std::move(result));
  });
  FakeExecutable picky("eager", [](absl::Span<const Tensor> inputs) {
    const std::vector<float> values = ValuesOf<float>(inputs[0]);
    return std::any_of(values.begin(), values.end(),
                       [](float value) { return std::abs(value) > 50; })
               ? absl::StatusOr<RunResult>(
                     absl::InvalidArgumentError("too large"))
               : Same(inputs);
  });
  for (FakeExecutable* eager : {&overflowing, &picky}) {
    const auto evidence = Check(*eager, candidate_, {});
    ASSERT_TRUE(evidence.ok()) << evidence.status();
    EXPECT_TRUE(evidence->verdict.parity.equal)
        << evidence->verdict.parity.reason;
    EXPECT_EQ(evidence->verdict.parity.cases.size(), 4u);
  }
}

TEST_F(CandidateCheckTest, RecordedRequestsShowWhatMadeUpInputsDoNot) {
  FakeExecutable clamping("aot", ClampedAt(500));
  auto evidence =
      Check(eager_, clamping, {Request({1, 2}), Request({1, 1000, 3})});
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  EXPECT_EQ(evidence->verdict.refusal(), "parity");
  EXPECT_THAT(evidence->verdict.reason(),
              HasSubstr("recorded request 1, batch=3 padded, output 0[1]: "
                        "eager 1000, compiled 500"));
  EXPECT_FALSE(evidence->reproducer.empty());
  evidence = Check(eager_, clamping, {});
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  EXPECT_NE(evidence->verdict.refusal(), "parity")
      << evidence->verdict.reason();
}

TEST_F(CandidateCheckTest, RecordedRequestsOfOtherSizesArePassedOver) {
  const auto evidence = Check({Request(std::vector<float>(9, 1.0F))});
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  EXPECT_EQ(evidence->verdict.parity.cases.size(), 5u);
}

// As a logarithm that is checked would.
TEST_F(CandidateCheckTest, WhereEagerRefusesTheUsualInputsOthersAreTried) {
  FakeExecutable picky("eager", [](absl::Span<const Tensor> inputs) {
    const std::vector<float> values = ValuesOf<float>(inputs[0]);
    return *std::min_element(values.begin(), values.end()) <= 0
               ? absl::StatusOr<RunResult>(
                     absl::InvalidArgumentError("not above zero"))
               : Same(inputs);
  });
  const auto evidence = Check(picky, candidate_, {});
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  EXPECT_TRUE(evidence->verdict.parity.equal);
  EXPECT_EQ(evidence->verdict.parity.cases.size(), 5u);
}

TEST_F(CandidateCheckTest, WhatEagerNeverAnswersIsNotCompared) {
  FakeExecutable never("eager", [](absl::Span<const Tensor>) {
    return absl::StatusOr<RunResult>(absl::InvalidArgumentError("no"));
  });
  const auto evidence = Check(never, candidate_, {});
  EXPECT_EQ(evidence.status().code(), absl::StatusCode::kInvalidArgument);
}

// What eager refuses, compiled code has to refuse too, but that is the guards'
// matter, and says nothing of this candidate.
TEST_F(CandidateCheckTest, RecordedRequestsThatEagerRefusesArePassedOver) {
  FakeExecutable picky("eager", [](absl::Span<const Tensor> inputs) {
    return ValuesOf<float>(inputs[0])[0] == 1000
               ? absl::StatusOr<RunResult>(
                     absl::InvalidArgumentError("out of range"))
               : Same(inputs);
  });
  const auto evidence =
      Check(picky, candidate_, {Request({1000}), Request({1})});
  ASSERT_TRUE(evidence.ok()) << evidence.status();
  EXPECT_EQ(evidence->verdict.parity.cases.size(), 6u);
}

}  // namespace
}  // namespace stoker
