// The loader of one GPU's executables. Private to libstoker_cuda.so.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "runner/cuda/gpu.h"
#include "runner/executable_loader.h"

namespace stoker {

class GpuLoader : public ExecutableLoader {
 public:
  // `open_mutex` is the process's: torch's loaders race with each other
  // (pytorch #194128), and what they ask CUDA may end a capture. The other
  // arguments as Gpu's.
  GpuLoader(GpuFacts facts, const GpuOptions& options,
            absl::Mutex& capture_lock, absl::Mutex& open_mutex)
      : gpu_(std::move(facts), options, capture_lock),
        open_mutex_(open_mutex) {}

  Gpu& gpu() { return gpu_; }

  std::unique_ptr<ExecutionContext> NewContext(int threads) override;
  // Copies them to the GPU through pinned memory. RESOURCE_EXHAUSTED with the
  // arithmetic when they don't fit, INVALID_ARGUMENT for a program that no GPU
  // can run (cuda_kernels.h).
  absl::StatusOr<std::shared_ptr<WeightStore>> MapWeights(
      const std::string& pt2_path) override;
  absl::StatusOr<std::shared_ptr<Executable>> OpenEager(
      const std::string& pt2_path,
      std::shared_ptr<WeightStore> weights) override;
  absl::StatusOr<std::shared_ptr<Executable>> OpenAot(
      const std::string& entry_folder,
      std::shared_ptr<WeightStore> weights) override;
  SpareMemory* spare_memory() override { return &gpu_.spares(); }
  bool CouldHold(int64_t bytes, int64_t freed) override {
    return gpu_.CouldHold(bytes, freed);
  }
  bool captures() const override { return true; }
  absl::StatusOr<CapturedGraph> Capture(
      std::shared_ptr<Executable> compiled, ExecutionContext& context,
      absl::Span<const std::vector<Tensor>> samples,
      int64_t max_bytes) override;

 private:
  Gpu gpu_;
  absl::Mutex& open_mutex_;
};

}  // namespace stoker
