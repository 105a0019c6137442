// The whole life of a model on a GPU, through what libstoker_cuda.so is made of
// and torch's own CUDA half, on a GPU that isn't there (tests/fakes/cuda): it
// has no numbers, but order, memory, captures, and errors wherever the test
// wants one. Started with the fake's two libraries in LD_PRELOAD.
#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "program/program_archive.h"
#include "runner/cuda/cuda_gpus.h"
#include "runner/cuda/gpu_context.h"
#include "runner/cuda/gpu_loader.h"
#include "runner/weight_store.h"
#include "tests/fakes/cuda/control.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

using testing::HasSubstr;

template <typename Function>
Function* InTheFake(const char* name) {
  auto* found = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  if (found == nullptr) {
    std::fprintf(stderr, "the fake GPU isn't in LD_PRELOAD\n");
    std::abort();
  }
  return found;
}
void Script(const std::string& text) {
  InTheFake<decltype(fake_cuda_script)>("fake_cuda_script")(text.c_str());
}
long Calls(const char* call) {
  return InTheFake<decltype(fake_cuda_calls)>("fake_cuda_calls")(call);
}
long Live(const char* kind) {
  return InTheFake<decltype(fake_cuda_live)>("fake_cuda_live")(kind);
}

// Of the whole process: torch's CUDA half is there once.
struct Shared {
  FakeClock clock;
  std::atomic<int> lost = 0;
  std::string why;
  std::unique_ptr<Gpus> gpus;
};
Shared& Process() {
  static Shared& shared = *[] {
    auto* made = new Shared;
    // 0 means that nothing runs.
    made->clock.Advance(absl::Hours(1));
    GpuOptions options;
    options.clock = &made->clock;
    options.run_limit = absl::Seconds(120);
    options.on_lost = [made](const std::string& why) {
      made->why = why;
      ++made->lost;
    };
    Script("");
    auto gpus = OpenCudaGpus(options);
    if (!gpus.ok()) {
      std::fprintf(stderr, "%s\n",
                   std::string(gpus.status().message()).c_str());
      std::abort();
    }
    made->gpus = *std::move(gpus);
    return made;
  }();
  return shared;
}

std::string Made(const std::string& name) {
  return std::string(GPU_TESTDATA) + "/" + name;
}

std::vector<Tensor> Inputs(int64_t rows, float first) {
  std::vector<float> values(static_cast<size_t>(rows) * 64);
  for (float& value : values) value = first++;
  return {MakeTensor<float>(DataType::kFp32, {rows, 64}, values)};
}

// What there is, apart from what torch keeps to use again.
struct Books {
  long device_bytes, streams, graphs;
  bool operator==(const Books&) const = default;
};
void PrintTo(const Books& books, std::ostream* out) {
  *out << books.device_bytes << " bytes, " << books.streams << " streams, "
       << books.graphs << " graphs";
}
Books BooksNow() {
  c10::cuda::CUDACachingAllocator::emptyCache();
  return {Live("device_bytes"), Live("streams"), Live("graphs")};
}

class LifeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ScriptOf("");
    auto loader = Process().gpus->Loader(0);
    ASSERT_TRUE(loader.ok()) << loader.status();
    loader_ = static_cast<GpuLoader*>(*loader);
    // What is made once for the process is there before anything is counted.
    ASSERT_EQ(Life(), absl::OkStatus());
  }
  void TearDown() override { Script(""); }

  // What is computed is zeros: compiled, eager and replayed agree.
  static void ScriptOf(const std::string& faults) {
    Script("answers zeros\n" + faults);
  }

  Gpu& gpu() { return loader_->gpu(); }

  // A version on the GPU, from its weights to its end.
  absl::Status Life() {
    const auto context = loader_->NewContext(1);
    ASSIGN_OR_RETURN(const auto weights,
                     loader_->MapWeights(Made("scale.pt2")));
    ASSIGN_OR_RETURN(const auto eager, loader_->OpenEager(Made("scale.pt2")));
    RETURN_IF_ERROR(eager->Run(*context, Inputs(3, 1)).status());
    std::vector<std::shared_ptr<Executable>> graphs;
    for (const int rows : {4, 2}) {
      ASSIGN_OR_RETURN(
          const auto compiled,
          loader_->OpenAot(Made(absl::StrCat("scale", rows)), weights));
      RETURN_IF_ERROR(compiled->Run(*context, Inputs(rows, 1)).status());
      const std::vector<Tensor> samples[] = {Inputs(rows, 1), Inputs(rows, 7)};
      ASSIGN_OR_RETURN(
          CapturedGraph graph,
          loader_->Capture(compiled, *context, samples, int64_t{1} << 30));
      graphs.push_back(std::move(graph.executable));
    }
    for (int i = 0; i < 4; ++i) {
      const int rows = i % 2 == 0 ? 4 : 2;
      RETURN_IF_ERROR(graphs[static_cast<size_t>(i % 2)]
                          ->Run(*context, Inputs(rows, 5))
                          .status());
    }
    return absl::OkStatus();
  }

  GpuLoader* loader_ = nullptr;
};

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

// In a process of its own each: nothing can be run in it afterwards.
class LostTest : public LifeTest {
 protected:
  LostTest() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  [[noreturn]] static void End(bool as_expected, const std::string& what) {
    std::fprintf(stderr, "%s\n", what.c_str());
    std::fflush(stderr);
    _exit(as_expected ? 0 : 1);
  }

  // The error comes from `call`, after `skip` that went well.
  void Poison(const std::string& call, int skip) {
    ScriptOf(absl::StrCat(call, " ", skip, " 1 700"));
    const absl::Status first = Life();
    const absl::Status then = Life();
    const Shared& process = Process();
    End(absl::IsUnavailable(first) && then == first && process.lost == 1 &&
            absl::StrContains(first.message(), "has to be started again"),
        absl::StrCat(first.ToString(), "; then ", then.ToString(), "; lost ",
                     process.lost.load()));
  }
};

TEST_F(LostTest, AnErrorThatPoisonsIsToldOnceAndRefusesWhatComesAfter) {
  for (const char* call :
       {"kernel", "cudaMemcpyAsync", "cudaGraphLaunch", "cudaMalloc",
        "cuLaunchKernel", "cudaStreamEndCapture", "cudaEventSynchronize"}) {
    EXPECT_EXIT(Poison(call, 0), testing::ExitedWithCode(0), "") << call;
  }
  EXPECT_EXIT(Poison("kernel", 5), testing::ExitedWithCode(0), "");
}

TEST_F(LostTest, ARunThatDoesNotEndIsNoticed) {
  const auto hang = [&] {
    Shared& process = Process();
    ScriptOf("kernel 3 1 hang");
    std::thread([&] { Life().IgnoreError(); }).detach();
    // Its limit is that of the clock, which is the test's.
    while (process.lost == 0) {
      process.clock.BlockUntilWaiters(1);
      process.clock.Advance(absl::Seconds(31));
      std::this_thread::yield();
    }
    End(absl::StrContains(process.why, "hangs") &&
            absl::IsUnavailable(loader_->OpenEager(Made("scale.pt2")).status()),
        process.why);
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(0), "hangs");
}

}  // namespace
}  // namespace stoker
