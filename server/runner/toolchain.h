// What the machine code of an artifact depends on besides its program.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stoker {

// An instruction set, as the psABI's micro-architecture levels, and how wide
// the vectors of the code are.
struct CpuTarget {
  std::string march;
  int simdlen = 0;
};
// Of this host, from CPUID: {"x86-64-v4", 512}, {"x86-64-v3", 256}, or
// {"x86-64-v2", 0}.
CpuTarget HostCpuTarget();
// Whether code built for `march` runs here.
bool HostRuns(const std::string& march);

// Hexadecimal digits, the same for all machines that run the same instructions
// in the same torch: of the processor's name and features.
std::string MachineId();

// A GPU as far as code that was tuned for it is concerned: with any of these
// different, compiled code may be slower, or not run at all.
struct GpuTarget {
  std::string arch;  // "sm_90"
  int sms = 0;       // streaming multiprocessors: a MIG slice has fewer
  int memory_gib = 0;
  std::string driver;  // its branch: "580"
  // "sm_90:132:79:580", as ParseGpuTarget takes it.
  std::string Text() const;
  friend bool operator==(const GpuTarget&, const GpuTarget&) = default;
};
// INVALID_ARGUMENT for any other form.
absl::StatusOr<GpuTarget> ParseGpuTarget(absl::string_view text);

struct Toolchain {
  CpuTarget cpu;
  std::string recipe;     // digest of the code of compiler/ that decides
  std::string torch;      // "2.11.0": of the libtorch that is linked
  std::string torch_git;  // the commit that it was built from
  std::string python;     // "3.11": beside that torch, and runs compiler/
  std::string sympy;      // "1.14.0": beside that torch, simplifies indices
  std::string cxx;        // "g++ 12": what builds artifacts, as KeyedCxx has it
  std::string cuda;       // "13.0": that torch was built with
  std::string triton;     // "3.6.0": beside that torch
  // Of the GPU that a version runs on; whoever makes its plan sets it.
  std::optional<GpuTarget> gpu;
};

// The part of a compiler's name and version that its code depends on: the first
// number. "g++ 12" of "g++ 12.2.0": releases behind it correct errors.
std::string KeyedCxx(absl::string_view cxx);

// Of this host. `cxx` is what artifacts are built by; when empty, it is what
// the g++ here says of itself, or BuildersCxx() without one. STOKER_CXX names
// another compiler, as it does for the compile worker. Asking takes about 3 ms.
Toolchain HostToolchain(const std::string& cxx);

// The g++ that this program was built beside: an image without a compiler looks
// for what its builder has made.
std::string BuildersCxx();

}  // namespace stoker
