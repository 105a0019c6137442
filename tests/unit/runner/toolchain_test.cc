// What this host is said to run and to build with.
#include "runner/toolchain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <utility>

namespace stoker {
namespace {

// The flags that Linux lists for the first processor.
std::string KernelFlags() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("flags")) return line + " ";
  }
  return "";
}

bool Lists(const std::string& flags, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (flags.find(std::string(" ") + name + " ") == std::string::npos) {
      return false;
    }
  }
  return true;
}

TEST(ToolchainTest, AGpuIsWrittenAsItIsRead) {
  const auto gpu = ParseGpuTarget("sm_90:132:79:580");
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  EXPECT_EQ(*gpu, (GpuTarget{"sm_90", 132, 79, "580"}));
  EXPECT_EQ(gpu->Text(), "sm_90:132:79:580");
  for (const char* text :
       {"", "sm_90", "sm_:132:79:580", "90:132:79:580", "sm_90:0:79:580",
        "sm_90:132:79", "sm_90:132:79:580:1", "sm_90:132:79:new"}) {
    EXPECT_EQ(ParseGpuTarget(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(ToolchainTest, AgreesWithTheKernel) {
  const std::string flags = KernelFlags();
  ASSERT_FALSE(flags.empty());
  const bool v3 =
      Lists(flags, {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"});
  const bool v4 = v3 && Lists(flags, {"avx512f", "avx512bw", "avx512cd",
                                      "avx512dq", "avx512vl"});
  const CpuTarget target = HostCpuTarget();
  EXPECT_EQ(target.march, v4 ? "x86-64-v4" : v3 ? "x86-64-v3" : "x86-64-v2");
  EXPECT_EQ(target.simdlen, v4 ? 512 : v3 ? 256 : 0);
  EXPECT_EQ(HostRuns("x86-64-v4"), v4);
  EXPECT_EQ(HostRuns("x86-64-v3"), v3);
}

TEST(ToolchainTest, RunsItsOwnTargetAndAllBelow) {
  EXPECT_TRUE(HostRuns(HostCpuTarget().march));
  EXPECT_TRUE(HostRuns("x86-64-v2"));
  EXPECT_TRUE(HostRuns("x86-64"));
}

TEST(ToolchainTest, DoesNotRunWhatItDoesNotKnow) {
  for (const char* march : {"", "native", "x86-64-v5", "armv8-a", "X86-64"}) {
    EXPECT_FALSE(HostRuns(march)) << march;
  }
}

TEST(ToolchainTest, NamesTheCompiler) {
  EXPECT_THAT(HostToolchain("").cxx, ::testing::MatchesRegex("g\\+\\+ [0-9]+"));
}

// Of what a compiler says of itself, what its code depends on.
TEST(ToolchainTest, ACompilersPatchLevelIsNoOtherCompiler) {
  const std::pair<const char*, const char*> table[] = {
      // GCC's releases of one number correct errors of the one before
      // (gcc.gnu.org/develop.html#num_scheme): what they compile differs in
      // those, and evidence belongs to the artifact that it was found with.
      {"g++ 12.2.0", "g++ 12"},
      {"g++ 12.3.0", "g++ 12"},
      {"g++ 13.1.0", "g++ 13"},
      {"g++ 12", "g++ 12"},
      {"clang++-14 14.0.6", "clang++-14 14"},  // its name is the operator's
      {"x86_64-linux-gnu-g++-13.1 13.1.0", "x86_64-linux-gnu-g++-13.1 13"},
      {"g++", "g++"},
      {"", ""},
  };
  for (const auto& [says, keyed] : table) {
    EXPECT_EQ(KeyedCxx(says), keyed) << says;
  }
}

// As an image without a compiler has it: the entries that were made beside this
// program are found.
TEST(ToolchainTest, WithoutACompilerItIsTheBuilders) {
  setenv("STOKER_CXX", "/nothing/g++", 1);
  EXPECT_EQ(HostToolchain("").cxx, BuildersCxx());
  unsetenv("STOKER_CXX");
  EXPECT_EQ(HostToolchain("g++ 13.2.0").cxx, "g++ 13");
}

}  // namespace
}  // namespace stoker
