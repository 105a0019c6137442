// What ends the life of a GPU in a process: an error that poisons, a run that
// doesn't end. On the GPU that isn't there.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/unit/runner/cuda/gpu_life.h"

namespace stoker {
namespace {

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
    const long kernels = Calls("kernel");
    ScriptOf("kernel 3 1 hang");
    std::thread([&] { Life().IgnoreError(); }).detach();
    // Its limit is that of the clock, which is the test's.
    while (Calls("kernel") - kernels <= 3) std::this_thread::yield();
    while (process.lost == 0) {
      process.clock.Advance(absl::Seconds(31));
      std::this_thread::yield();
    }
    End(absl::StrContains(process.why, "hangs") &&
            absl::IsUnavailable(
                loader_->OpenEager(Made("scale.pt2"), nullptr).status()),
        process.why);
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(0), "hangs");
}

}  // namespace
}  // namespace stoker
