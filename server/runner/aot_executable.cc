#include "runner/aot_executable.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runner/aot_artifact.h"
#include "runner/torch_errors.h"
#include "runner/torch_values.h"

namespace stoker {
namespace {

using torch::inductor::AOTIModelContainerRunnerCpu;

}  // namespace

AotExecutable::AotExecutable(
    ArtifactManifest manifest, std::shared_ptr<WeightStore> weights,
    std::unique_ptr<AOTIModelContainerRunnerCpu> runner, int64_t code_bytes)
    : manifest_(std::move(manifest)),
      dynamic_(IsDynamic(manifest_)),
      code_bytes_(code_bytes),
      weights_(std::move(weights)),
      runner_(std::move(runner)) {}

absl::StatusOr<std::shared_ptr<Executable>> AotExecutable::Open(
    const std::string& entry_folder, std::shared_ptr<WeightStore> weights) {
  ASSIGN_OR_RETURN(ArtifactManifest manifest,
                   ReadArtifact(entry_folder, "cpu", *weights));
  const std::string library = entry_folder + "/model.so";
  try {
    const c10::InferenceMode mode;
    auto runner = std::make_unique<AOTIModelContainerRunnerCpu>(
        library, /*num_models=*/1,
        /*run_single_threaded=*/true);
    const absl::Status bound = BindConstants(*runner, manifest, *weights);
    if (!bound.ok()) return InFolder(entry_folder, bound);
    std::error_code error;  // it is open: at worst nothing is known of it
    const auto size = std::filesystem::file_size(library, error);
    return std::shared_ptr<Executable>(new AotExecutable(
        std::move(manifest), std::move(weights), std::move(runner),
        error ? 0 : static_cast<int64_t>(size)));
  } catch (...) {
    return CompiledError(entry_folder);
  }
}

bool AotExecutable::Takes(absl::Span<const Tensor> inputs) const {
  return TakesInputs(manifest_, inputs);
}

absl::StatusOr<RunResult> AotExecutable::SplitOutputs(
    std::vector<at::Tensor> values, absl::Span<const at::Tensor> inputs) const {
  RunResult result;
  ASSIGN_OR_RETURN(result.faults, TakeFaults(manifest_, values));
  ASSIGN_OR_RETURN(result.outputs,
                   AllFromTorch(std::move(values), inputs, weights_));
  return result;
}

absl::StatusOr<RunResult> AotExecutable::Run(ExecutionContext& context,
                                             absl::Span<const Tensor> inputs) {
  RETURN_IF_ERROR(CheckArtifactInputs(manifest_, inputs));
  context.BeginRun();
  try {
    const c10::InferenceMode mode;
    ASSIGN_OR_RETURN(std::vector<at::Tensor> views, ViewAllAsTorch(inputs));
    if (weights_->effects().writes_in_place) {
      for (at::Tensor& view : views) view = view.clone();
    }
    std::vector<at::Tensor> values = runner_->run(views);
    if (!weights_->Unchanged()) return WrittenToError(weights_->path());
    return SplitOutputs(std::move(values), views);
  } catch (...) {
    return CompiledError(absl::StrCat("compiled program, bucket ",
                                      manifest_.bucket,
                                      " (its own message is on stderr)"));
  }
}

}  // namespace stoker
