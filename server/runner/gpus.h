// The GPUs of this host. All that knows CUDA is in libstoker_cuda.so, which is
// opened when the first model asks for a GPU: a host without one needs none of
// NVIDIA's libraries.
//
// Gpus is thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/log_levels.h"
#include "metrics/metrics.h"
#include "runner/executable_loader.h"
#include "runner/toolchain.h"
#include "tensor/device.h"

namespace stoker {

struct OperatorLibrary;

struct GpuFacts {
  int index = 0;     // among those that this process sees
  std::string name;  // "NVIDIA H100 80GB HBM3"
  std::string uuid;  // "GPU-..." or "MIG-..."
  GpuTarget target;
  int64_t total_bytes = 0;
};

struct GpuOptions {
  Clock* clock = nullptr;             // outlive the Gpus
  MetricRegistry* metrics = nullptr;  // likewise; null: nothing is counted
  // How long a run may take before the GPU counts as hung.
  absl::Duration run_limit = absl::Seconds(120);
  // Called at most once for each GPU, on any thread: only another process can
  // use it again. Must not block.
  std::function<void(const std::string& why)> on_lost;
};

class Gpus {
 public:
  virtual ~Gpus() = default;
  // At least one, by index.
  virtual const std::vector<GpuFacts>& facts() const = 0;
  // As NVML or the driver says now; 0 where they can't.
  virtual int64_t FreeBytes(int index) = 0;
  // Starts the GPU at its first call, which takes a second; the loader lives as
  // long as the Gpus. UNAVAILABLE with CUDA's words when that fails.
  virtual absl::StatusOr<ExecutableLoader*> Loader(int index) = 0;
  // Of the GPUs that were started: free memory, and where NVML is there how
  // busy they are and what they draw.
  virtual void UpdateMetrics() {}
};

// Where libstoker_cuda.so is: beside this program, or in ../lib/stoker.
std::string DefaultGpuLibrary();

// FAILED_PRECONDITION, in one line, with what is missing and what to do, where
// there is no library, no driver or no GPU. Before anything in the process asks
// torch for a GPU: torch remembers that there was none.
absl::StatusOr<std::unique_ptr<Gpus>> OpenGpus(const std::string& library,
                                               const GpuOptions& options);

// The GPU that is meant. `free_bytes` by index. FAILED_PRECONDITION, with those
// that there are, when there is no such one.
absl::StatusOr<int> FindGpu(const Device& device,
                            const std::vector<GpuFacts>& facts,
                            const std::vector<int64_t>& free_bytes);

// What libstoker_cuda.so exports, under the name kOpenGpusSymbol. The two are
// built together: C++ objects pass between them, and `build` has to be equal.
// The library has a copy of the rooms below this one, and none of what they
// know: `operators` is the process's list of libraries that programs may call
// (program/operator_libraries.h) and `levels` what its log writes
// (base/log_levels.h), which the copy goes by from then on.
using OpenGpusFunction = Gpus*(const char* build, const GpuOptions& options,
                               const std::vector<OperatorLibrary>& operators,
                               log::LevelWord& levels, absl::Status& status);
inline constexpr char kOpenGpusSymbol[] = "stoker_open_gpus";
std::string GpuLibraryBuild();

}  // namespace stoker
