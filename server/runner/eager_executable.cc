#include "runner/eager_executable.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <utility>

#include "base/status_macros.h"
#include "runner/program_effects.h"
#include "runner/program_writer.h"
#include "runner/torch_errors.h"
#include "runner/torch_values.h"
#include "runner/weightless_program.h"

namespace stoker {
namespace {

// Where the tensor lies in `memory`, which shows the same file as `zip`.
void* PlaceIn(std::byte* memory, const ZipArchive& zip,
              const StoredTensor& stored) {
  const auto member = zip.members().find(stored.member);
  const auto* begin =
      reinterpret_cast<const std::byte*>(zip.View(stored.member)->data());
  return memory + member->second.offset + (stored.data - begin);
}

}  // namespace

EagerExecutable::EagerExecutable(const std::string& pt2_path, bool copy_inputs,
                                 Mapped mapped, int64_t copied_bytes)
    : mapped_(std::move(mapped)),
      handle_(pt2_path, ProgramArchive::kModelName),
      copy_inputs_(copy_inputs),
      copied_bytes_(copied_bytes) {}

absl::StatusOr<std::shared_ptr<Executable>> EagerExecutable::Open(
    const std::string& pt2_path) {
  ASSIGN_OR_RETURN(const auto archive, ProgramArchive::Open(pt2_path));
  RETURN_IF_ERROR(archive->CheckRunsOnCpu());
  const ProgramEffects effects = ScanProgramEffects(archive->program());
  RETURN_IF_ERROR(CheckKeepsNoState(effects, archive->program_place()));
  const bool writes = effects.writes_in_place;
  try {
    if (archive->is_rewritten()) return OpenMapped(*archive, writes);
    return std::shared_ptr<Executable>(
        new EagerExecutable(pt2_path, writes, {}, archive->weights_bytes()));
  } catch (...) {
    return EagerError(pt2_path);
  }
}

absl::StatusOr<std::shared_ptr<Executable>> EagerExecutable::OpenMapped(
    const ProgramArchive& archive, bool copy_inputs) {
  ASSIGN_OR_RETURN(const WeightlessProgram program,
                   WriteWeightlessProgram(archive, Device{}));
  Mapped mapped{.zip = archive.zip()};
  ASSIGN_OR_RETURN(mapped.memory, archive.zip()->CopyOnWrite());
  const c10::InferenceMode mode;
  for (const std::string& name : program.inputs) {
    at::Tensor& weight = mapped.weights.emplace_back();
    if (name.empty()) continue;
    const StoredTensor& stored = archive.tensors().at(name);
    weight = ViewOfStored(
        stored, PlaceIn(mapped.memory.get(), *archive.zip(), stored), at::kCPU);
  }
  return std::shared_ptr<Executable>(new EagerExecutable(
      PathOfDescriptor(program.file), copy_inputs, std::move(mapped),
      /*copied_bytes=*/0));
}

absl::StatusOr<std::vector<c10::IValue>> EagerExecutable::Arguments(
    const std::vector<at::Tensor>& views) const {
  std::vector<c10::IValue> given;
  given.reserve(views.size());
  for (const at::Tensor& view : views) {
    given.emplace_back(copy_inputs_ ? view.clone() : view);
  }
  if (mapped_.zip == nullptr) return given;
  return WithWeights(mapped_.weights, std::move(given));
}

absl::StatusOr<RunResult> EagerExecutable::Run(
    ExecutionContext& context, absl::Span<const Tensor> inputs) {
  context.BeginRun();
  try {
    const c10::InferenceMode mode;
    ASSIGN_OR_RETURN(std::vector<at::Tensor> views, ViewAllAsTorch(inputs));
    ASSIGN_OR_RETURN(std::vector<c10::IValue> arguments, Arguments(views));
    const std::vector<c10::IValue> values =
        handle_.runWithFlatInputsAndOutputs(std::move(arguments));
    if (mapped_.zip != nullptr && !mapped_.zip->Unchanged()) {
      return WrittenToError(mapped_.zip->path());
    }
    ASSIGN_OR_RETURN(std::vector<at::Tensor> outputs, TensorsOfValues(values));
    RunResult result;
    ASSIGN_OR_RETURN(result.outputs,
                     AllFromTorch(std::move(outputs), views, mapped_.memory));
    return result;
  } catch (...) {
    return EagerError("running the program");
  }
}

}  // namespace stoker
