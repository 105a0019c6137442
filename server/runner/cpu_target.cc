// The host's x86-64 micro-architecture level, as the psABI defines them.
#include <cpuid.h>

#include <string_view>

#include "runner/executable_loader.h"

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

}  // namespace stoker
