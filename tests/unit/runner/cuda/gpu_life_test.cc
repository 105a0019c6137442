// The whole life of a model on a GPU, through what libstoker_cuda.so is made of
// and torch's own CUDA half, on a GPU that isn't there (tests/fakes/cuda): it
// has no numbers, but order, memory, captures, and errors wherever the test
// wants one.
#include "tests/unit/runner/cuda/gpu_life.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "program/program_archive.h"
#include "runner/cuda/gpu_context.h"
#include "runner/weight_store.h"

namespace stoker {
namespace {

using testing::HasSubstr;

TEST_F(LifeTest, LeavesNothingBehind) {
  const Books before = BooksNow();
  const long replays = Calls("cudaGraphLaunch");
  for (int i = 0; i < 5; ++i) ASSERT_EQ(Life(), absl::OkStatus());
  EXPECT_EQ(BooksNow(), before);
  EXPECT_GE(Calls("cudaGraphLaunch") - replays, 5 * 8);
  for (const GpuUse use : {GpuUse::kWeights, GpuUse::kEager, GpuUse::kGraphs}) {
    EXPECT_EQ(gpu().memory().used(use), 0);
  }
}

TEST_F(LifeTest, FactsAreWhatKeysNeed) {
  const GpuFacts& facts = Process().gpus->facts().front();
  EXPECT_EQ(facts.target.arch, "sm_90");
  EXPECT_EQ(facts.target.sms, 132);
  EXPECT_EQ(facts.target.memory_gib, 79);
  EXPECT_EQ(facts.uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
}

TEST_F(LifeTest, Float32IsFloat32) {
  for (const auto operation : {at::Float32Op::CONV, at::Float32Op::RNN}) {
    EXPECT_FALSE(at::globalContext().allowTF32CuDNN(operation));
  }
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
}

TEST_F(LifeTest, WeightsAreOnTheDeviceByteByByte) {
  const auto archive = ProgramArchive::Open(Made("scale.pt2"));
  ASSERT_TRUE(archive.ok()) << archive.status();
  const auto weights = loader_->MapWeights(Made("scale.pt2"));
  ASSERT_TRUE(weights.ok()) << weights.status();
  for (const auto& [name, stored] : (*archive)->tensors()) {
    const at::Tensor* tensor = (*weights)->Find(name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->device(), gpu().device());
    // The fake's device memory is the host's.
    EXPECT_EQ(
        std::memcmp(tensor->const_data_ptr(), stored.data, tensor->nbytes()),
        0);
  }
}

// Neither device nor host hold the weights once more for it.
TEST_F(LifeTest, EagerComputesWithTheWeightsThatAreThere) {
  const auto weights = loader_->MapWeights(Made("scale.pt2"));
  ASSERT_TRUE(weights.ok()) << weights.status();
  const int64_t copied = Calls("cudaMemcpyAsync");
  const auto eager = loader_->OpenEager(Made("scale.pt2"), *weights);
  ASSERT_TRUE(eager.ok()) << eager.status();
  EXPECT_EQ(Calls("cudaMemcpyAsync"), copied);
  EXPECT_EQ(gpu().memory().used(GpuUse::kEager), 0);
  const auto context = loader_->NewContext(1);
  EXPECT_TRUE((*eager)->Run(*context, Inputs(3, 1)).ok());
}

TEST_F(LifeTest, EagerThatWritesSomewhereHasWeightsOfItsOwn) {
  const auto weights = loader_->MapWeights(Made("in_place.pt2"));
  ASSERT_TRUE(weights.ok()) << weights.status();
  const int64_t used = gpu().memory().used(GpuUse::kWeights);
  {
    const auto eager = loader_->OpenEager(Made("in_place.pt2"), *weights);
    ASSERT_TRUE(eager.ok()) << eager.status();
    EXPECT_EQ(gpu().memory().used(GpuUse::kEager), used);
    EXPECT_EQ(gpu().memory().taken(GpuUse::kEager), used);
  }
  EXPECT_EQ(gpu().memory().used(GpuUse::kEager), 0);
  ScriptOf("free 1000000");
  const auto refused = loader_->OpenEager(Made("in_place.pt2"), *weights);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
}

// A run's inputs are still being copied when the call that enqueues it returns.
TEST_F(LifeTest, WhatIsCopiedStaysUntilItIs) {
  const auto context = loader_->NewContext(1);
  auto& on = static_cast<GpuContext&>(*context);
  Script("");
  for (const size_t count : {1, 1000, 16'384, 400'000}) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
    const auto answers =
        on.Run(on.stream(), "copying", false,
               [&]() -> absl::StatusOr<std::vector<at::Tensor>> {
                 return on.Upload({MakeTensor<float>(
                     DataType::kFp32, {static_cast<int64_t>(count)}, values)});
               });
    ASSERT_TRUE(answers.ok()) << answers.status();
    EXPECT_EQ(std::memcmp((*answers)[0].const_data_ptr(), values.data(),
                          count * sizeof(float)),
              0);
  }
}

// Each call that takes memory finds none once, and then all from there on.
TEST_F(LifeTest, WantOfMemoryAtAnyCallIsThatCallsAlone) {
  Books before = BooksNow();
  int lost_inputs = 0;
  for (const char* times : {"1", "-1"}) {
    int refused = 0;
    bool reached = true;
    for (int skip = 0; reached; ++skip) {
      const long calls = Calls("memory");
      // What is left is little, by which what has no number is known.
      ScriptOf(absl::StrCat("free 300000000\nmemory ", skip, " ", times, " 2"));
      const absl::Status status = Life();
      reached = Calls("memory") - calls > skip;
      ScriptOf("");
      // Torch and the context take what they can do without.
      if (!status.ok()) {
        ++refused;
        EXPECT_TRUE(absl::IsResourceExhausted(status))
            << "after " << skip << " calls: " << status;
      }
      // A run whose two events can't be made, at the first after it was opened,
      // loses its inputs in torch's own runner.
      if (!status.ok() && Live("device_bytes") > before.device_bytes &&
          absl::StrContains(status.message(), "compiled program")) {
        c10::cuda::CUDACachingAllocator::emptyCache();
        const long now = Live("device_bytes");
        lost_inputs += now > before.device_bytes;
        before.device_bytes = now;
      }
      EXPECT_EQ(BooksNow(), before) << "after " << skip << " calls: " << status;
      ASSERT_EQ(gpu().health().Check(), absl::OkStatus()) << skip;
      for (const GpuUse use :
           {GpuUse::kWeights, GpuUse::kEager, GpuUse::kGraphs}) {
        EXPECT_EQ(gpu().memory().used(use), 0) << skip;
      }
    }
    EXPECT_GT(refused, 20) << times;
  }
  EXPECT_LE(lost_inputs, 2 * 2 * 2);
  EXPECT_EQ(Life(), absl::OkStatus());
  EXPECT_EQ(Process().lost, 0);
}

TEST_F(LifeTest, WantOfMemoryInCompiledCodeIsTold) {
  const auto context = loader_->NewContext(1);
  const auto weights = loader_->MapWeights(Made("scale.pt2"));
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto compiled = loader_->OpenAot(Made("scale4"), *weights);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_TRUE((*compiled)->Run(*context, Inputs(4, 1)).ok());
  // Kernels are there; its answers have no memory.
  c10::cuda::CUDACachingAllocator::emptyCache();
  ScriptOf("cudaMalloc 0 -1 2");
  const auto refused = (*compiled)->Run(*context, Inputs(4, 1));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  ScriptOf("");
  EXPECT_TRUE((*compiled)->Run(*context, Inputs(4, 1)).ok());
}

TEST_F(LifeTest, WeightsThatDoNotFitAreRefusedWithTheArithmetic) {
  ScriptOf("free 1000000");
  const auto weights = loader_->MapWeights(Made("scale.pt2"));
  EXPECT_TRUE(absl::IsResourceExhausted(weights.status()));
  EXPECT_THAT(std::string(weights.status().message()), HasSubstr(" free: "));
  EXPECT_EQ(gpu().memory().used(GpuUse::kWeights), 0);
}

// Whatever step of a capture fails, the next one succeeds, and kept graphs are
// replayed.
TEST_F(LifeTest, CapturesGoOnAfterOneThatFailed) {
  const auto context = loader_->NewContext(1);
  const auto weights = loader_->MapWeights(Made("scale.pt2"));
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto large = loader_->OpenAot(Made("scale4"), *weights);
  const auto small = loader_->OpenAot(Made("scale2"), *weights);
  ASSERT_TRUE(large.ok() && small.ok());
  const auto capture = [&](const std::shared_ptr<Executable>& compiled,
                           int64_t rows) {
    const std::vector<Tensor> sample = Inputs(rows, 1);
    return loader_->Capture(compiled, *context, absl::MakeConstSpan(&sample, 1),
                            int64_t{1} << 30);
  };
  const auto kept = capture(*large, 4);
  ASSERT_TRUE(kept.ok()) << kept.status();
  for (const char* script :
       {"cudaStreamBeginCapture 0 1 900", "cudaStreamEndCapture 0 1 901",
        "cudaGraphInstantiate 0 1 2", "cudaGraphLaunch 0 1 2",
        // And no new stream in the old one's place.
        "cudaStreamEndCapture 0 1 901\ncudaStreamCreate 0 1 2"}) {
    ScriptOf(script);
    const auto failed = capture(*small, 2);
    EXPECT_FALSE(failed.ok()) << script;
    EXPECT_TRUE(absl::IsFailedPrecondition(failed.status()) ||
                absl::IsResourceExhausted(failed.status()))
        << script << ": " << failed.status();
    ScriptOf("");
    EXPECT_TRUE(kept->executable->Run(*context, Inputs(4, 2)).ok()) << script;
    const auto next = capture(*small, 2);
    ASSERT_TRUE(next.ok()) << script << ": " << next.status();
    EXPECT_TRUE(next->executable->Run(*context, Inputs(2, 2)).ok()) << script;
    EXPECT_TRUE(kept->executable->Run(*context, Inputs(4, 2)).ok()) << script;
  }
}

// Nothing of what the host knew at the capture may be in the graph: on the
// inputs that it was captured with that doesn't show.
TEST_F(LifeTest, AGraphThatKeepsAnInputOfItsCaptureIsRefused) {
  const auto context = loader_->NewContext(1);
  const auto weights = loader_->MapWeights(Made("scale.pt2"));
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto compiled = loader_->OpenAot(Made("scale4"), *weights);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_TRUE((*compiled)->Run(*context, Inputs(4, 1)).ok());
  const std::vector<Tensor> samples[] = {Inputs(4, 1), Inputs(4, 1),
                                         Inputs(4, 7)};
  const auto capture = [&](size_t count) {
    return loader_
        ->Capture(*compiled, *context, absl::MakeConstSpan(samples, count),
                  int64_t{1} << 30)
        .status();
  };
  Script("answers inputs");
  EXPECT_EQ(capture(3), absl::OkStatus());
  Script("answers inputs\nbaked 0");
  EXPECT_EQ(capture(2), absl::OkStatus());
  const absl::Status refused = capture(3);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("has kept something of those that it was captured"));
}

TEST_F(LifeTest, WithoutAStreamToCaptureOnKeptGraphsAreReplayed) {
  const auto context = loader_->NewContext(1);
  const auto weights = loader_->MapWeights(Made("scale.pt2"));
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto compiled = loader_->OpenAot(Made("scale4"), *weights);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const std::vector<Tensor> sample = Inputs(4, 1);
  const auto capture = [&] {
    return loader_->Capture(*compiled, *context,
                            absl::MakeConstSpan(&sample, 1), int64_t{1} << 30);
  };
  const auto kept = capture();
  ASSERT_TRUE(kept.ok()) << kept.status();
  ScriptOf("cudaStreamEndCapture 0 1 901\ncudaStreamCreate 0 -1 2");
  EXPECT_FALSE(capture().ok());
  const long captures = Calls("cudaStreamBeginCapture");
  EXPECT_TRUE(absl::IsResourceExhausted(capture().status()));
  EXPECT_EQ(Calls("cudaStreamBeginCapture"), captures);
  EXPECT_TRUE(kept->executable->Run(*context, sample).ok());
  ScriptOf("");
  EXPECT_TRUE(capture().ok());
  EXPECT_TRUE(kept->executable->Run(*context, sample).ok());
}

// The fake ends the process where two captures overlap, and where a stream, an
// event or a graph is used that is gone.
TEST_F(LifeTest, ThreadsLoadCaptureReplayAndDropBesideEachOther) {
  const Books before = BooksNow();
  std::vector<std::thread> threads;
  std::vector<absl::Status> ends(3);
  for (absl::Status& end : ends) {
    threads.emplace_back([&] {
      for (int i = 0; i < 15 && end.ok(); ++i) end = Life();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& end : ends) EXPECT_EQ(end, absl::OkStatus());
  EXPECT_EQ(BooksNow(), before);
}

}  // namespace
}  // namespace stoker
