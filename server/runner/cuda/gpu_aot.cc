#include "runner/cuda/gpu_aot.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runner/aot_artifact.h"
#include "runner/torch_values.h"

namespace stoker {

GpuAot::GpuAot(Gpu& gpu, ArtifactManifest manifest,
               std::shared_ptr<WeightStore> weights,
               std::unique_ptr<Runner> runner)
    : gpu_(gpu),
      manifest_(std::move(manifest)),
      weights_(std::move(weights)),
      runner_(std::move(runner)) {}

GpuAot::~GpuAot() {
  const absl::ReaderMutexLock lock(&gpu_.capture_lock());
  const c10::cuda::CUDAGuard guard(gpu_.device());
  runner_.reset();
}

absl::StatusOr<std::shared_ptr<Executable>> GpuAot::Open(
    Gpu& gpu, const std::string& entry_folder,
    std::shared_ptr<WeightStore> weights) {
  RETURN_IF_ERROR(gpu.health().Check());
  ASSIGN_OR_RETURN(ArtifactManifest manifest,
                   ReadArtifact(entry_folder, "cuda", *weights));
  // Machine code of another architecture isn't found by the driver at the first
  // run; the loader itself doesn't look.
  const std::string& arch = gpu.facts().target.arch;
  if (manifest.gpu_arch != arch) {
    return InFolder(entry_folder, absl::FailedPreconditionError(absl::StrCat(
                                      "compiled for ", manifest.gpu_arch, ", ",
                                      gpu.device().str(), " is ", arch)));
  }
  try {
    const c10::InferenceMode mode;
    // The container's constructor sets the device and leaves it set.
    const c10::cuda::CUDAGuard guard(gpu.device());
    auto runner = std::make_unique<Runner>(
        entry_folder + "/model.so", /*num_models=*/1, gpu.device().str(),
        /*cubin_dir=*/entry_folder, /*run_single_threaded=*/true);
    const absl::Status bound = BindConstants(*runner, manifest, *weights);
    if (!bound.ok()) return InFolder(entry_folder, bound);
    // Weights may just have been rounded, on this thread's stream.
    C10_CUDA_CHECK(
        cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream().stream()));
    // cuBLAS asks for the process's leave at each call; whoever computes in
    // float32 declines it for its own thread.
    if (manifest.tf32) at::globalContext().setAllowTF32CuBLAS(true);
    return std::shared_ptr<Executable>(new GpuAot(
        gpu, std::move(manifest), std::move(weights), std::move(runner)));
  } catch (...) {
    return gpu.ErrorNow(entry_folder);
  }
}

std::string GpuAot::Name() const {
  return absl::StrCat("compiled program, bucket ", manifest_.bucket,
                      " (its own message is on stderr)");
}

std::vector<at::Tensor> GpuAot::Enqueue(const std::vector<at::Tensor>& inputs,
                                        const c10::cuda::CUDAStream& stream) {
  std::optional<at::NoTF32Guard> float32;
  if (!manifest_.tf32) float32.emplace();
  return runner_->run(inputs, stream.stream());
}

absl::StatusOr<RunResult> GpuAot::Result(
    std::vector<at::Tensor> answers) const {
  RunResult result;
  ASSIGN_OR_RETURN(result.faults, TakeFaults(manifest_, answers));
  ASSIGN_OR_RETURN(result.outputs,
                   AllFromTorch(std::move(answers), {}, nullptr));
  return result;
}

absl::StatusOr<RunResult> GpuAot::Run(ExecutionContext& context,
                                      absl::Span<const Tensor> inputs) {
  RETURN_IF_ERROR(CheckArtifactInputs(manifest_, inputs));
  auto& on = static_cast<GpuContext&>(context);
  const auto run = [&]() -> absl::StatusOr<std::vector<at::Tensor>> {
    return Enqueue(on.Upload(inputs), on.stream());
  };
  ASSIGN_OR_RETURN(std::vector<at::Tensor> answers,
                   on.Run(on.stream(), Name(), false, run));
  return Result(std::move(answers));
}

}  // namespace stoker
