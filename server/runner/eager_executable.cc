#include "runner/eager_executable.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "program/program_archive.h"
#include "runner/program_effects.h"
#include "runner/torch_errors.h"
#include "runner/torch_values.h"

namespace stoker {

EagerExecutable::EagerExecutable(const std::string& pt2_path,
                                 const std::string& model_name,
                                 bool copy_inputs)
    : handle_(pt2_path, model_name), copy_inputs_(copy_inputs) {}

absl::StatusOr<std::shared_ptr<Executable>> EagerExecutable::Open(
    const std::string& pt2_path) {
  ASSIGN_OR_RETURN(const auto archive, ProgramArchive::Open(pt2_path));
  RETURN_IF_ERROR(archive->CheckRunsOnCpu());
  const ProgramEffects effects = ScanProgramEffects(archive->program());
  RETURN_IF_ERROR(CheckKeepsNoState(effects, archive->program_place()));
  try {
    return std::shared_ptr<Executable>(new EagerExecutable(
        pt2_path, ProgramArchive::kModelName, effects.writes_in_place));
  } catch (...) {
    return EagerError(pt2_path);
  }
}

absl::StatusOr<RunResult> EagerExecutable::Run(
    ExecutionContext& /*context*/, absl::Span<const Tensor> inputs) {
  try {
    const c10::InferenceMode mode;
    ASSIGN_OR_RETURN(std::vector<at::Tensor> views, ViewAllAsTorch(inputs));
    std::vector<c10::IValue> arguments;
    arguments.reserve(views.size());
    for (const at::Tensor& view : views) {
      arguments.emplace_back(copy_inputs_ ? view.clone() : view);
    }
    const std::vector<c10::IValue> values =
        handle_.runWithFlatInputsAndOutputs(std::move(arguments));
    ASSIGN_OR_RETURN(std::vector<at::Tensor> outputs, TensorsOfValues(values));
    RunResult result;
    ASSIGN_OR_RETURN(result.outputs,
                     AllFromTorch(std::move(outputs), views, nullptr));
    return result;
  } catch (...) {
    return EagerError("running the program");
  }
}

}  // namespace stoker
