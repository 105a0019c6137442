#include "runner/cuda/gpu_loader.h"

#include <utility>

#include "base/status_macros.h"
#include "program/program_archive.h"
#include "runner/cuda/cuda_kernels.h"
#include "runner/cuda/gpu_aot.h"
#include "runner/cuda/gpu_context.h"
#include "runner/cuda/gpu_eager.h"
#include "runner/cuda/gpu_graph.h"
#include "runner/cuda/gpu_weights.h"

namespace stoker {

std::unique_ptr<ExecutionContext> GpuLoader::NewContext(int threads) {
  return std::make_unique<GpuContext>(gpu_, threads);
}

absl::StatusOr<std::shared_ptr<WeightStore>> GpuLoader::MapWeights(
    const std::string& pt2_path) {
  RETURN_IF_ERROR(gpu_.health().Check());
  ASSIGN_OR_RETURN(const auto archive, ProgramArchive::Open(pt2_path));
  RETURN_IF_ERROR(CheckHasCudaKernels(*archive));
  return LoadWeights(gpu_, *archive, GpuUse::kWeights);
}

absl::StatusOr<std::shared_ptr<Executable>> GpuLoader::OpenEager(
    const std::string& pt2_path, std::shared_ptr<WeightStore> weights) {
  RETURN_IF_ERROR(gpu_.health().Check());
  const absl::MutexLock lock(&open_mutex_);
  return GpuEager::Open(gpu_, pt2_path, std::move(weights));
}

absl::StatusOr<std::shared_ptr<Executable>> GpuLoader::OpenAot(
    const std::string& entry_folder, std::shared_ptr<WeightStore> weights) {
  const absl::MutexLock lock(&open_mutex_);
  return GpuAot::Open(gpu_, entry_folder, std::move(weights));
}

absl::StatusOr<CapturedGraph> GpuLoader::Capture(
    std::shared_ptr<Executable> compiled, ExecutionContext& context,
    absl::Span<const std::vector<Tensor>> samples, int64_t max_bytes) {
  auto aot = std::dynamic_pointer_cast<GpuAot>(std::move(compiled));
  if (aot == nullptr) {
    return absl::FailedPreconditionError(
        "only what AOTInductor compiled for a GPU is captured");
  }
  // Taken first: see Gpu::capture_lock.
  const absl::MutexLock lock(&open_mutex_);
  return GpuGraph::Capture(std::move(aot), static_cast<GpuContext&>(context),
                           samples, max_bytes);
}

}  // namespace stoker
