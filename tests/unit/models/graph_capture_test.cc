// Which buckets get a CUDA graph, in which order, and what becomes of it: with
// a GPU that isn't there, on a clock that only moves when something runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/files.h"
#include "batching/device_turns.h"
#include "kernel_cache/kernel_cache.h"
#include "metrics/catalog.h"
#include "models/model_version.h"
#include "models/version_labels.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_compiler.h"
#include "tests/fakes/fake_gpu_loader.h"
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

const GpuTarget kTarget{
    .arch = "sm_90", .sms = 132, .memory_gib = 79, .driver = "580"};

// In buckets of 1, 8 and 4 rows.
std::shared_ptr<ModelSpec> GpuModel() {
  auto spec = RowModel({{{1}}, {{8}}, {{4}}});
  spec->devices = {*ParseDevice("cuda:0")};
  return spec;
}

class GraphCaptureTest : public ::testing::Test {
 protected:
  GraphCaptureTest() {
    auto cache =
        KernelCache::Open({.root = folder_ / "cache"}, Files::Real(), metrics_);
    EXPECT_TRUE(cache.ok()) << cache.status();
    cache_ = *std::move(cache);
  }
  ~GraphCaptureTest() override { Stop(); }

  void Stop() {
    if (version_ != nullptr) version_->Stop(MonotonicTime::InfinitePast());
    version_.reset();
  }

  // Loads and warms up the model with all its artifacts in the cache.
  void Serve() {
    Stop();
    toolchain_.gpu = kTarget;
    for (const WarmupStep& step :
         MakeWarmupPlan(*spec_, toolchain_, "cuda:0")) {
      const ArtifactKey& key = step.request.key;
      if (cache_->entries().Lookup(key).has_value()) continue;
      const auto staged = cache_->entries().NewStagingFolder(key);
      ASSERT_TRUE(staged.ok());
      StageArtifact(*staged, key);
      ASSERT_TRUE(cache_->entries().Commit(key, *staged).ok());
    }
    VersionDeps deps;
    deps.cache = cache_.get();
    deps.placement = {.places = {{"cuda:0", &gpu_, &turns_}}, .gpu = kTarget};
    deps.clock = &clock_;
    deps.metrics =
        std::make_shared<MetricScope>(metrics_, VersionLabels(*spec_));
    deps.toolchain = toolchain_;
    deps.verify_promotions = false;
    deps.machine = "here";
    version_ = std::make_unique<ModelVersion>(spec_, deps);
    ASSERT_TRUE(version_->Load().ok());
    version_->warmup().Run();
  }

  BucketSlot::Snapshot Bucket(int index) const {
    return version_->Buckets()[static_cast<size_t>(index)].slot;
  }
  // The rows of the captures, in order.
  std::vector<int64_t> CapturedRows() const {
    std::vector<int64_t> rows;
    for (const Shape& shape : gpu_.captured()) rows.push_back(shape[0]);
    return rows;
  }
  double Outcomes(const char* outcome) const {
    return MetricValue(metrics_, metric::kGraphCaptures.name,
                       {{"outcome", outcome}});
  }
  // The tier that answers a request of so many rows.
  std::string TierOf(int64_t rows) {
    const absl::StatusOr<InferResult> answer = AskForRows(*version_, rows);
    return answer.ok() ? std::string(answer->tier) : answer.status().ToString();
  }

  const TempFolder folder_;
  FakeClock clock_;
  MetricRegistry metrics_;
  DeviceTurns turns_{2, clock_};
  std::unique_ptr<KernelCache> cache_;
  FakeGpuLoader gpu_{clock_, [](absl::Span<const Tensor> inputs) {
                       return AsTheyCame(inputs.first(1));
                     }};
  Toolchain toolchain_;
  std::shared_ptr<ModelSpec> spec_ = GpuModel();
  std::unique_ptr<ModelVersion> version_;
};

TEST_F(GraphCaptureTest, TheLargestBucketComesFirstAndAllServe) {
  Serve();
  EXPECT_THAT(CapturedRows(), ElementsAre(8, 4, 1));
  EXPECT_EQ(Outcomes("kept"), 3);
  EXPECT_NEAR(Bucket(1).graph_gain, 2, 0.01);
  EXPECT_EQ(Bucket(1).graph_bytes, 100);
  EXPECT_THAT(Bucket(1).graph, StartsWith("2.00 x compiled"));
  EXPECT_EQ(TierOf(1), "graph");
  EXPECT_EQ(TierOf(7), "graph");
}

TEST_F(GraphCaptureTest, EachDeviceThreadHasItsOwn) {
  spec_->instances = 2;
  Serve();
  EXPECT_THAT(CapturedRows(), ElementsAre(8, 8, 4, 4, 1, 1));
  EXPECT_EQ(Outcomes("kept"), 3);
  EXPECT_EQ(Bucket(0).graph_bytes, 200);
}

// A value of the capture's inputs that is in the graph shows on others.
TEST_F(GraphCaptureTest, EachIsTriedOnOtherNumbersRowsAndIntegers) {
  for (const auto& [name, dtype, low, high] :
       {std::tuple("id", DataType::kInt64, 0.0, 1.0),
        std::tuple("flag", DataType::kBool, 0.0, 1.0),
        std::tuple("step", DataType::kInt32, 5.0, 9.0)}) {
    InputSpec& input = spec_->inputs.emplace_back();
    input.name = name;
    input.dtype = dtype;
    input.dims = {DimExpr::Dimension(0)};
    if (low > 0) input.range = {low, high};
  }
  Serve();
  ASSERT_EQ(gpu_.samples().size(), 3u);
  for (const auto& samples : gpu_.samples()) {
    const std::vector<Tensor>& first = samples[0];
    for (size_t i = 0; i < first.size(); ++i) {
      const size_t size = DataTypeSize(first[i].dtype);
      const auto is_another = [&](const std::vector<Tensor>& sample) {
        EXPECT_EQ(sample[i].shape, first[i].shape);
        for (size_t at = 0; at < first[i].byte_size; at += size) {
          if (std::memcmp(sample[i].data + at, first[i].data + at, size) == 0) {
            return false;
          }
        }
        return true;
      };
      EXPECT_TRUE(std::any_of(samples.begin(), samples.end(), is_another))
          << spec_->inputs[i].name;
    }
    // One row, repeated as padding does.
    const auto repeats = [](const std::vector<Tensor>& sample) {
      const auto rows = ValuesOf<float>(sample[0]);
      return std::equal(rows.begin() + 1, rows.end(), rows.begin());
    };
    EXPECT_TRUE(std::any_of(samples.begin(), samples.end(), repeats));
  }
}

TEST_F(GraphCaptureTest, WhatGainsLittleIsNotKeptAndThatIsRemembered) {
  gpu_.OnCapture([](const Shape& shape) {
    return CapturedAs{.run = absl::Microseconds(shape[0] == 8 ? 9700 : 5000)};
  });
  Serve();
  EXPECT_EQ(Outcomes("gain"), 1);
  EXPECT_THAT(Bucket(1).graph, HasSubstr("gain: 1.03 x compiled"));
  EXPECT_EQ(TierOf(8), "aot");
  EXPECT_EQ(TierOf(4), "graph");
  // Another start captures only what is worth it, and times nothing.
  const MonotonicTime before = clock_.Now();
  Serve();
  EXPECT_THAT(CapturedRows(), ElementsAre(8, 4, 1, 4, 1));
  EXPECT_LT(clock_.Now() - before, absl::Milliseconds(200));
  EXPECT_EQ(TierOf(8), "aot");
  EXPECT_EQ(TierOf(1), "graph");
}

// Graphs of other code gain something else.
TEST_F(GraphCaptureTest, WhatTakesAnArtifactsPlaceIsTimedAgain) {
  gpu_.OnCapture(
      [](const Shape&) { return CapturedAs{.run = absl::Microseconds(9700)}; });
  Serve();
  EXPECT_EQ(Outcomes("gain"), 3);
  gpu_.OnCapture(
      [](const Shape&) { return CapturedAs{.run = absl::Microseconds(5000)}; });
  const ArtifactKey key =
      MakeWarmupPlan(*spec_, toolchain_, "cuda:0")[1].request.key;
  std::filesystem::remove_all(cache_->entries().layers()[0].EntryFolder(key));
  ASSERT_TRUE(CommitArtifact(*cache_, key, {{"model.so", "other code"}}).ok());
  Serve();
  EXPECT_EQ(Outcomes("gain"), 2);
  EXPECT_EQ(TierOf(8), "graph");
  EXPECT_EQ(TierOf(4), "aot");
}

TEST_F(GraphCaptureTest, RefusalsHaveReasonsAndLeaveTheCompiledForm) {
  gpu_.OnCapture([](const Shape& shape) {
    if (shape[0] == 8) {
      return CapturedAs{.status = absl::FailedPreconditionError(
                            "aten.nonzero waits for the device")};
    }
    if (shape[0] == 4) {
      return CapturedAs{.status =
                            absl::ResourceExhaustedError("out of memory")};
    }
    return CapturedAs{.status = absl::InternalError("surprise")};
  });
  Serve();
  EXPECT_EQ(Outcomes("unfit"), 1);
  EXPECT_EQ(Outcomes("memory"), 1);
  EXPECT_EQ(Outcomes("failed"), 1);
  EXPECT_EQ(Bucket(1).graph, "unfit: aten.nonzero waits for the device");
  EXPECT_EQ(Bucket(1).state, BucketState::kCompiled);
  EXPECT_EQ(TierOf(8), "aot");
  EXPECT_EQ(TierOf(1), "aot");
}

TEST_F(GraphCaptureTest, TheBudgetGoesToTheLargest) {
  spec_->graphs.max_bytes = 100;
  Serve();
  EXPECT_THAT(CapturedRows(), ElementsAre(8));
  EXPECT_EQ(Outcomes("budget"), 2);
  EXPECT_THAT(Bucket(0).graph, HasSubstr("budget: the graphs of larger"));
  EXPECT_EQ(TierOf(8), "graph");
  EXPECT_EQ(TierOf(4), "aot");
}

TEST_F(GraphCaptureTest, ThereAreAtMostSixtyFour) {
  spec_->dimensions[0].max = 100;
  spec_->max_batch_size = 70;
  spec_->buckets.clear();
  for (int64_t rows = 1; rows <= 70; ++rows) spec_->buckets.push_back({{rows}});
  Serve();
  EXPECT_EQ(Outcomes("kept"), 64);
  EXPECT_EQ(Outcomes("count"), 6);
  EXPECT_THAT(Bucket(0).graph, StartsWith("count: there are 64"));
}

TEST_F(GraphCaptureTest, AFailedReplayFallsBackAndAnswersAllTheSame) {
  Serve();
  for (const auto& weak : gpu_.graphs()) {
    if (const auto graph = weak.lock()) {
      graph->FailNext(1, absl::ResourceExhaustedError("out of memory"));
    }
  }
  EXPECT_EQ(TierOf(8), "aot");
  EXPECT_EQ(Bucket(1).graph_gain, 0);
  EXPECT_THAT(Bucket(1).graph, HasSubstr("failed: RESOURCE_EXHAUSTED"));
  EXPECT_EQ(Bucket(1).state, BucketState::kCompiled);
  EXPECT_EQ(TierOf(8), "aot");
}

TEST_F(GraphCaptureTest, ALostGpuIsNoReasonToTryAnotherForm) {
  Serve();
  for (const auto& weak : gpu_.graphs()) {
    if (const auto graph = weak.lock()) {
      graph->FailNext(1, absl::UnavailableError("cuda:0 failed"));
    }
  }
  EXPECT_THAT(TierOf(8), HasSubstr("UNAVAILABLE"));
  EXPECT_GT(Bucket(1).graph_gain, 0);
}

TEST_F(GraphCaptureTest, NoGraphsWhereModelYamlSaysSo) {
  spec_->graphs.enabled = false;
  Serve();
  EXPECT_THAT(CapturedRows(), IsEmpty());
  EXPECT_EQ(TierOf(8), "aot");
  EXPECT_EQ(Bucket(1).graph, "");
}

// The artifact is as good as ever: another start may find room, or the GPU.
TEST_F(GraphCaptureTest, WithoutRoomOnTheGpuTheArtifactStaysInTheCache) {
  for (const auto& [status, reason] :
       {std::pair(absl::ResourceExhaustedError(
                      "weights of m (rounded) take 2.00 GiB"),
                  "memory"),
        std::pair(absl::UnavailableError("cuda:0 failed"), "open")}) {
    gpu_.OpenWith(status);
    Serve();
    EXPECT_EQ(TierOf(8), "eager");
    EXPECT_THAT(Bucket(1).detail, HasSubstr(std::string(status.message())));
    EXPECT_EQ(MetricValue(metrics_, metric::kCacheRejections.name), 0);
    EXPECT_EQ(
        MetricValue(metrics_, metric::kFallbacks.name, {{"reason", reason}}),
        3);
  }
  gpu_.OpenWith(absl::OkStatus());
  Serve();
  EXPECT_EQ(TierOf(8), "graph");
}

// The order in which memory goes that somebody needs.
TEST_F(GraphCaptureTest, GraphsGoThenEagerForWhoNeedsMemory) {
  spec_->dimensions[0].max = 100;
  spec_->max_batch_size = 100;
  Serve();
  EXPECT_EQ(TierOf(100), "eager");  // opened, as it fits no bucket
  SpareMemory& spares = *gpu_.spare_memory();
  EXPECT_TRUE(spares.ReleaseNext("other:1"));
  for (const auto& weak : gpu_.graphs()) EXPECT_TRUE(weak.expired());
  EXPECT_EQ(Bucket(1).graph, "memory: its memory was wanted by other:1");
  EXPECT_EQ(Bucket(1).graph_gain, 0);
  EXPECT_EQ(TierOf(8), "aot");
  EXPECT_EQ(Outcomes("memory"), 3);
  EXPECT_TRUE(spares.ReleaseNext("other:1"));   // eager's copy
  EXPECT_FALSE(spares.ReleaseNext("other:1"));  // nothing is left
  EXPECT_EQ(TierOf(100), "eager");              // opened again
}

TEST_F(GraphCaptureTest, EagerStaysWhereABucketHasNothingElse) {
  gpu_.OpenWith(absl::UnavailableError("cuda:0 failed"));
  Serve();
  EXPECT_EQ(TierOf(8), "eager");
  EXPECT_FALSE(gpu_.spare_memory()->ReleaseNext("other:1"));
}

TEST_F(GraphCaptureTest, ARunWithoutMemoryIsMadeAgainWithoutGraphs) {
  Serve();
  bool asked = false;
  const auto offer = gpu_.spare_memory()->Add(
      SpareMemory::Kind::kGraphs, [&](std::string_view whom) {
        EXPECT_EQ(whom, spec_->Label());
        return !std::exchange(asked, true);
      });
  // The graph finds none, and what it was captured of doesn't either.
  for (const auto& weak : gpu_.graphs()) {
    if (const auto graph = weak.lock()) {
      graph->FailNext(1, absl::ResourceExhaustedError("out of memory"));
    }
  }
  for (const auto& weak : gpu_.compiled()) {
    if (const auto compiled = weak.lock()) {
      compiled->FailNext(1, absl::ResourceExhaustedError("out of memory"));
    }
  }
  EXPECT_EQ(TierOf(8), "aot");
  EXPECT_TRUE(asked);
  // Other buckets' graphs went for it.
  EXPECT_EQ(Bucket(0).graph_gain, 0);
}

TEST_F(GraphCaptureTest, GraphsGoWithTheVersion) {
  Serve();
  Stop();
  for (const auto& weak : gpu_.graphs()) EXPECT_TRUE(weak.expired());
}

}  // namespace
}  // namespace stoker
