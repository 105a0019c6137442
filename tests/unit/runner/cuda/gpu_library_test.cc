// libstoker_cuda.so as the daemon opens it: the rooms below the door are in
// this process twice, here and in the library, and the library goes by what
// this half knows. On the GPU that isn't there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/lost_pages.h"
#include "runner/executable_loader.h"
#include "runner/gpus.h"
#include "runner/operator_library.h"
#include "tests/fakes/cuda/control.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/tensors.h"
#include "tests/unit/runner/cuda/in_the_fake.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// As the daemon starts: once for the process.
ExecutableLoader& Gpu() {
  static ExecutableLoader& loader = *[] {
    Script("answers zeros");
    OutliveLostPages();
    MakeCpuLoader().release();  // the server's own operators
    const TempFolder folder;
    const fs::path own = folder / "libmine.so";
    fs::copy_file(OWN_OPERATORS, own);
    for (const fs::path& path : {own, own.parent_path()}) {
      fs::permissions(path, fs::perms(0755));
    }
    const auto operators =
        LoadOperatorLibraries({absl::StrCat("mine=", own.string())});
    EXPECT_TRUE(operators.ok()) << operators.status();
    GpuOptions options;
    options.clock = &Clock::Real();
    auto gpus = OpenGpus(STOKER_CUDA_LIBRARY, options);
    const auto loader = gpus.ok()
                            ? (*gpus)->Loader(0)
                            : absl::StatusOr<ExecutableLoader*>(gpus.status());
    if (!loader.ok()) {
      std::fprintf(stderr, "%s\n", loader.status().ToString().c_str());
      std::abort();
    }
    gpus->release();
    return *loader;
  }();
  return loader;
}

std::string Made(const std::string& name) {
  return std::string(GPU_TESTDATA) + "/" + name;
}

TEST(GpuLibraryTest, ProgramsCallOperatorsOfTheLibrariesThatWereNamed) {
  const auto weights = Gpu().MapWeights(Made("own.pt2"));
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto eager = Gpu().OpenEager(Made("own.pt2"), *weights);
  ASSERT_TRUE(eager.ok()) << eager.status();
  const auto context = Gpu().NewContext(1);
  const Tensor x = MakeTensor<float>(DataType::kFp32, {2}, {1, 2});
  const auto answer = (*eager)->Run(*context, {&x, 1});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->outputs[0].shape, Shape({2}));
}

TEST(GpuLibraryTest, WhatOnlyCpusHaveIsRefusedAtTheLoad) {
  for (const auto& [program, op] :
       {std::pair("own_on_cpus", "torch.ops.mine.twice_on_cpus.default"),
        std::pair("boxes", "torch.ops.torchvision.roi_align.default")}) {
    const std::string path = Made(absl::StrCat(program, ".pt2"));
    const absl::Status refused = Gpu().MapWeights(path).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << program;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr(op), HasSubstr("which there is for CPUs only"),
                      HasSubstr("make_gpu_artifacts.py:")));
    EXPECT_EQ(refused.message().find('\n'), std::string::npos);
  }
}

// The handler for lost pages that is the process's knows none of the library's.
TEST(GpuLibraryTest, AProgramThatIsCutWhileItIsReadIsRefused) {
  const TempFolder folder;
  std::string path = folder / "cut.pt2";
  fs::copy_file(Made("scale.pt2"), path);
  Gpu();
  InTheFake<decltype(fake_cuda_at)>("fake_cuda_at")(
      "cudaMalloc",
      [](void* cut) {
        EXPECT_EQ(truncate(static_cast<std::string*>(cut)->c_str(), 0), 0);
      },
      &path);
  const absl::Status refused = Gpu().MapWeights(path).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << refused;
}

}  // namespace
}  // namespace stoker
