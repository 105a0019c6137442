#include "runner/cuda/gpu_eager.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "program/program_archive.h"
#include "runner/cuda/gpu_context.h"
#include "runner/cuda/gpu_weights.h"
#include "runner/program_effects.h"
#include "runner/program_writer.h"
#include "runner/torch_values.h"
#include "runner/weightless_program.h"

namespace stoker {

GpuEager::GpuEager(Gpu& gpu, std::shared_ptr<WeightStore> store,
                   std::vector<at::Tensor> weights,
                   std::unique_ptr<Handle> handle)
    : gpu_(gpu),
      store_(std::move(store)),
      weights_(std::move(weights)),
      handle_(std::move(handle)) {}

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
    Gpu& gpu, const std::string& pt2_path,
    std::shared_ptr<WeightStore> weights) {
  ASSIGN_OR_RETURN(const auto archive, ProgramArchive::Open(pt2_path));
  const ProgramEffects effects = ScanProgramEffects(archive->program());
  RETURN_IF_ERROR(CheckKeepsNoState(effects, archive->program_place()));
  // Which memory an operator writes can't always be told, and the weights are
  // everybody's.
  if (effects.writes_in_place) {
    ASSIGN_OR_RETURN(weights, LoadWeights(gpu, *archive, GpuUse::kEager));
  }
  ASSIGN_OR_RETURN(
      const WeightlessProgram program,
      WriteWeightlessProgram(
          *archive, {.kind = Device::Kind::kGpu, .index = gpu.facts().index}));
  std::vector<at::Tensor> of_inputs;
  for (const std::string& name : program.inputs) {
    at::Tensor& weight = of_inputs.emplace_back();
    if (name.empty()) continue;
    const at::Tensor* found = weights->Find(name);
    if (found == nullptr) {
      return absl::DataLossError(absl::StrCat(pt2_path, " has a tensor '", name,
                                              "' that it had not before"));
    }
    weight = *found;
  }
  try {
    const c10::InferenceMode mode;
    const c10::cuda::CUDAGuard guard(gpu.device());
    auto handle = std::make_unique<Handle>(PathOfDescriptor(program.file),
                                           ProgramArchive::kModelName);
    return std::shared_ptr<Executable>(new GpuEager(
        gpu, std::move(weights), std::move(of_inputs), std::move(handle)));
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
    ASSIGN_OR_RETURN(
        std::vector<c10::IValue> arguments,
        WithWeights(weights_, std::vector<c10::IValue>(uploaded.begin(),
                                                       uploaded.end())));
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
