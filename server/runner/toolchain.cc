#include "runner/toolchain.h"

#include <cpuid.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/sha256.h"
#include "base/subprocess.h"

namespace stoker {
namespace {

// The part of level 3 that compilers' feature tests of today do not all know.
bool HasLevel3Scalar() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kMovbe = 1u << 22, kF16c = 1u << 29, kLzcnt = 1u << 5;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((ecx & kMovbe) == 0 || (ecx & kF16c) == 0) return false;
  if (__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (ecx & kLzcnt) != 0;
}

// The built-in tests include the operating system's support of the registers.
int HostLevel() {
  const bool level3 = __builtin_cpu_supports("avx2") &&
                      __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") &&
                      __builtin_cpu_supports("bmi2") && HasLevel3Scalar();
  if (!level3) return 2;
  const bool level4 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return level4 ? 4 : 3;
}

// 0 for a name that is not one of the levels.
int LevelOf(std::string_view march) {
  if (march == "x86-64") return 1;
  if (march == "x86-64-v2") return 2;
  if (march == "x86-64-v3") return 3;
  if (march == "x86-64-v4") return 4;
  return 0;
}

}  // namespace

CpuTarget HostCpuTarget() {
  switch (HostLevel()) {
    case 4:
      return {"x86-64-v4", 512};
    case 3:
      return {"x86-64-v3", 256};
    default:
      return {"x86-64-v2", 0};
  }
}

bool HostRuns(const std::string& march) {
  const int level = LevelOf(march);
  return level > 0 && level <= HostLevel();
}

namespace {

// Everything that a short-lived program prints; empty when it can't be run.
std::string OutputOf(std::vector<std::string> argv) {
  auto child = Subprocess::Start({.argv = std::move(argv)});
  if (!child.ok()) return "";
  std::string output;
  char bytes[256];
  ssize_t got = 0;
  while ((got = read((*child)->stderr_fd(), bytes, sizeof(bytes))) > 0) {
    output.append(bytes, static_cast<size_t>(got));
  }
  const bool succeeded = (*child)->Wait() == "exit status 0";
  return succeeded ? std::string(absl::StripAsciiWhitespace(output)) : "";
}

std::string HostCxx() {
  const char* named = std::getenv("STOKER_CXX");
  const std::string program = named != nullptr && *named != 0 ? named : "g++";
  const std::string version = OutputOf({program, "-dumpfullversion"});
  const std::string name = std::filesystem::path(program).filename().string();
  return version.empty() ? BuildersCxx()
                         : KeyedCxx(absl::StrCat(name, " ", version));
}

}  // namespace

std::string GpuTarget::Text() const {
  return absl::StrCat(arch, ":", sms, ":", memory_gib, ":", driver);
}

absl::StatusOr<GpuTarget> ParseGpuTarget(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  GpuTarget gpu;
  int branch = 0;
  if (parts.size() == 4 && absl::StartsWith(parts[0], "sm_") &&
      parts[0].size() > 3 && absl::SimpleAtoi(parts[1], &gpu.sms) &&
      gpu.sms > 0 && absl::SimpleAtoi(parts[2], &gpu.memory_gib) &&
      gpu.memory_gib > 0 && absl::SimpleAtoi(parts[3], &branch)) {
    gpu.arch = parts[0];
    gpu.driver = parts[3];
    return gpu;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected a GPU as architecture, multiprocessors, GiB of "
                   "memory and the driver's branch, such as sm_90:132:79:580, "
                   "got '",
                   text, "'"));
}

std::string KeyedCxx(absl::string_view cxx) {
  const size_t version = cxx.rfind(' ');
  if (version == absl::string_view::npos) return std::string(cxx);
  return std::string(cxx.substr(0, cxx.find('.', version)));
}

std::string BuildersCxx() {
  return KeyedCxx(absl::StrCat("g++ ", STOKER_CXX_VERSION));
}

std::string MachineId() {
  std::string known = STOKER_TORCH_GIT;
  std::ifstream cpus("/proc/cpuinfo");
  // The first processor ends with an empty line.
  for (std::string line; std::getline(cpus, line) && !line.empty();) {
    if (absl::StartsWith(line, "model name") ||
        absl::StartsWith(line, "flags")) {
      absl::StrAppend(&known, "\n", line);
    }
  }
  return Sha256Hex(known).substr(0, 12);
}

Toolchain HostToolchain(const std::string& cxx) {
  return {.cpu = HostCpuTarget(),
          .recipe = STOKER_RECIPE,
          .torch = STOKER_TORCH_VERSION,
          .torch_git = STOKER_TORCH_GIT,
          .python = STOKER_PYTHON_VERSION,
          .sympy = STOKER_SYMPY_VERSION,
          .cxx = cxx.empty() ? HostCxx() : KeyedCxx(cxx),
          .cuda = STOKER_CUDA_VERSION,
          .triton = STOKER_TRITON_VERSION};
}

}  // namespace stoker
