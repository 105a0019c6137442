#include "runner/cuda/gpu_eager.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "program/program_archive.h"
#include "runner/cuda/gpu_context.h"
#include "runner/device_program.h"
#include "runner/program_effects.h"
#include "runner/program_writer.h"
#include "runner/torch_values.h"
#include "runner/weight_layout.h"

namespace stoker {

GpuEager::GpuEager(Gpu& gpu, GpuMemory::Claim claim,
                   std::unique_ptr<Handle> handle)
    : gpu_(gpu), claim_(std::move(claim)), handle_(std::move(handle)) {}

GpuEager::~GpuEager() {
  const absl::ReaderMutexLock lock(&gpu_.capture_lock());
  handle_.reset();
  // Else its memory stays with torch's allocator, where weights, which are
  // allocated beside it, can't have it.
  try {
    c10::cuda::CUDACachingAllocator::emptyCache();
  } catch (...) {
    gpu_.ErrorNow("letting eager go").IgnoreError();
  }
}

absl::StatusOr<std::shared_ptr<Executable>> GpuEager::Open(
    Gpu& gpu, const std::string& pt2_path) {
  ASSIGN_OR_RETURN(const auto archive, ProgramArchive::Open(pt2_path));
  RETURN_IF_ERROR(CheckKeepsNoState(ScanProgramEffects(archive->program()),
                                    archive->program_place()));
  const int64_t bytes = LayOutWeights(archive->tensors()).bytes;
  ASSIGN_OR_RETURN(GpuMemory::Claim claim,
                   gpu.Take(GpuUse::kEager, pt2_path, bytes));
  ASSIGN_OR_RETURN(const FileDescriptor program,
                   WriteDeviceProgram(*archive, {.kind = Device::Kind::kGpu,
                                                 .index = gpu.facts().index}));
  try {
    const c10::InferenceMode mode;
    const c10::cuda::CUDAGuard guard(gpu.device());
    auto handle = std::make_unique<Handle>(PathOfDescriptor(program),
                                           ProgramArchive::kModelName);
    claim->Taken();
    // nativert keeps its file open.
    EmptyDeviceProgram(program);
    return std::shared_ptr<Executable>(
        new GpuEager(gpu, std::move(claim), std::move(handle)));
  } catch (...) {
    return gpu.ErrorNow(pt2_path, /*eager=*/true);
  }
}

absl::StatusOr<RunResult> GpuEager::Run(ExecutionContext& context,
                                        absl::Span<const Tensor> inputs) {
  auto& on = static_cast<GpuContext&>(context);
  const auto run = [&]() -> absl::StatusOr<std::vector<at::Tensor>> {
    // The program as it was exported: float32 is float32, whatever another
    // model has allowed.
    const at::NoTF32Guard float32;
    // Copies: in-place operators harm nobody.
    std::vector<at::Tensor> uploaded = on.Upload(inputs);
    std::vector<c10::IValue> arguments(uploaded.begin(), uploaded.end());
    return TensorsOfValues(
        handle_->runWithFlatInputsAndOutputs(std::move(arguments)));
  };
  ASSIGN_OR_RETURN(std::vector<at::Tensor> answers,
                   on.Run(on.stream(), "running the program", true, run));
  RunResult result;
  ASSIGN_OR_RETURN(result.outputs,
                   AllFromTorch(std::move(answers), {}, nullptr));
  return result;
}

}  // namespace stoker
