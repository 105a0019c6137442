// A version's life on the GPU that isn't there (tests/fakes/cuda), for the
// tests of it, which are started with the fake's two libraries in LD_PRELOAD.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runner/cuda/cuda_gpus.h"
#include "runner/cuda/gpu_loader.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/tensors.h"
#include "tests/unit/runner/cuda/in_the_fake.h"

namespace stoker {

// Of the whole process: torch's CUDA half is there once.
struct Shared {
  FakeClock clock;
  std::atomic<int> lost = 0;
  std::string why;
  std::unique_ptr<Gpus> gpus;
};
inline Shared& Process() {
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

inline std::string Made(const std::string& name) {
  return std::string(GPU_TESTDATA) + "/" + name;
}

inline std::vector<Tensor> Inputs(int64_t rows, float first) {
  std::vector<float> values(static_cast<size_t>(rows) * 64);
  for (float& value : values) value = first++;
  return {MakeTensor<float>(DataType::kFp32, {rows, 64}, values)};
}

// What there is, apart from what torch keeps to use again.
struct Books {
  long device_bytes, streams, graphs;
  bool operator==(const Books&) const = default;
};
inline void PrintTo(const Books& books, std::ostream* out) {
  *out << books.device_bytes << " bytes, " << books.streams << " streams, "
       << books.graphs << " graphs";
}
inline Books BooksNow() {
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
    ASSIGN_OR_RETURN(const auto eager,
                     loader_->OpenEager(Made("scale.pt2"), weights));
    RETURN_IF_ERROR(eager->Run(*context, Inputs(3, 1)).status());
    // Has weights of its own.
    ASSIGN_OR_RETURN(const auto in_place,
                     loader_->OpenEager(Made("in_place.pt2"), weights));
    RETURN_IF_ERROR(in_place->Run(*context, Inputs(3, 1)).status());
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

}  // namespace stoker
