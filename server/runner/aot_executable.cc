#include "runner/aot_executable.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/version.h>

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "runner/toolchain.h"
#include "runner/torch_errors.h"
#include "runner/torch_values.h"

namespace stoker {
namespace {

using torch::inductor::AOTIModelContainerRunnerCpu;

// "2.11.0+cu130" → "2.11.0": builds of one version share their C interface.
std::string_view Release(std::string_view version) {
  return version.substr(0, version.find('+'));
}

absl::Status CheckHost(const ArtifactManifest& manifest) {
  if (!HostRuns(manifest.march)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "compiled for ", manifest.march, ", this host runs code for ",
        HostCpuTarget().march, " and below"));
  }
  if (Release(manifest.torch) != Release(TORCH_VERSION)) {
    return absl::FailedPreconditionError(
        absl::StrCat("compiled by torch ", manifest.torch,
                     ", this server runs torch ", TORCH_VERSION));
  }
  return absl::OkStatus();
}

absl::Status CheckConstant(const std::string& name, WeightStore& weights) {
  if (weights.Find(name) == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "needs constant '", name, "', which ", weights.path(), " lacks"));
  }
  if (weights.effects().written_tensors.contains(name)) {
    return absl::FailedPreconditionError(
        absl::StrCat("writes into '", name,
                     "', which all compiled forms share; a program with state "
                     "of its own runs in its eager form only"));
  }
  return absl::OkStatus();
}

// Hands the container every constant that it has. Its generated code reads them
// by names of its own, for which it knows the program's.
absl::Status BindConstants(AOTIModelContainerRunnerCpu& runner,
                           const ArtifactManifest& manifest,
                           WeightStore& weights) {
  const at::ScalarType packed_as =
      manifest.packed_as == DataType::kBf16 ? at::kBFloat16 : at::kFloat;
  torch::inductor::TensorConstantMap bound;
  for (const auto& [generated, name] :
       runner.getConstantNamesToOriginalFQNs()) {
    RETURN_IF_ERROR(CheckConstant(name, weights));
    at::Tensor* tensor = weights.Find(name);
    if (manifest.packed.contains(name)) {
      ASSIGN_OR_RETURN(tensor, weights.Packed(name, packed_as));
    }
    bound.emplace(generated, tensor);
  }
  // The container's own completeness check only warns about buffers and
  // constants, and would run with null pointers.
  runner.update_constant_buffer(bound, /*use_inactive=*/false,
                                /*validate_full_updates=*/false,
                                /*user_managed=*/true);
  return absl::OkStatus();
}

absl::StatusOr<ArtifactManifest> ReadManifest(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string text,
                   Files::Real().Read(folder + "/manifest.json"));
  return ParseArtifactManifest(text);
}

absl::Status Prefixed(const std::string& folder, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(folder, ": ", status.message()));
}

}  // namespace

AotExecutable::AotExecutable(
    ArtifactManifest manifest, bool parallel,
    std::shared_ptr<WeightStore> weights,
    std::unique_ptr<AOTIModelContainerRunnerCpu> runner)
    : manifest_(std::move(manifest)),
      parallel_(parallel),
      weights_(std::move(weights)),
      runner_(std::move(runner)) {}

absl::StatusOr<std::shared_ptr<Executable>> AotExecutable::Open(
    const std::string& entry_folder, std::shared_ptr<WeightStore> weights) {
  auto manifest = ReadManifest(entry_folder);
  if (!manifest.ok()) return Prefixed(entry_folder, manifest.status());
  absl::Status status = CheckHost(*manifest);
  for (const std::string& name : manifest->constants) {
    if (status.ok()) status = CheckConstant(name, *weights);
  }
  if (!status.ok()) return Prefixed(entry_folder, status);
  const std::string library = entry_folder + "/model.so";
  ASSIGN_OR_RETURN(const std::string code, Files::Real().Read(library));
  // What gcc calls for a parallel region.
  const bool parallel = code.find("GOMP_parallel") != std::string::npos;
  try {
    const c10::InferenceMode mode;
    auto runner = std::make_unique<AOTIModelContainerRunnerCpu>(
        library, /*num_models=*/1,
        /*run_single_threaded=*/true);
    status = BindConstants(*runner, *manifest, *weights);
    if (!status.ok()) return Prefixed(entry_folder, status);
    return std::shared_ptr<Executable>(new AotExecutable(
        *std::move(manifest), parallel, std::move(weights), std::move(runner)));
  } catch (...) {
    return CompiledError(entry_folder);
  }
}

absl::Status AotExecutable::CheckInputs(absl::Span<const Tensor> inputs) const {
  if (inputs.size() != manifest_.inputs.size()) {
    return absl::InternalError(absl::StrCat("compiled program takes ",
                                            manifest_.inputs.size(),
                                            " inputs, got ", inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArtifactInput& expected = manifest_.inputs[i];
    const Tensor& actual = inputs[i];
    bool fits = actual.dtype == expected.dtype &&
                actual.shape.size() == expected.shape.size();
    for (size_t d = 0; fits && d < expected.shape.size(); ++d) {
      fits = expected.shape[d] == -1 || expected.shape[d] == actual.shape[d];
    }
    if (!fits) {
      return absl::InternalError(absl::StrCat(
          "compiled program's input '", expected.name, "': expected ",
          Absl(DataTypeName(expected.dtype)), " ", ShapeString(expected.shape),
          ", got ", Absl(DataTypeName(actual.dtype)), " ",
          ShapeString(actual.shape)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RunResult> AotExecutable::SplitOutputs(
    std::vector<at::Tensor> values, absl::Span<const at::Tensor> inputs) const {
  const size_t expected =
      manifest_.outputs + (manifest_.validity_output ? 1 : 0);
  if (values.size() != expected) {
    return absl::InternalError(
        absl::StrCat("compiled program answered with ", values.size(),
                     " tensors, its manifest has ", expected));
  }
  RunResult result;
  if (manifest_.validity_output) {
    const auto position = values.begin() + *manifest_.validity_output;
    const at::Tensor validity = position->contiguous();
    if (validity.scalar_type() != at::kLong) {
      return absl::InternalError(absl::StrCat(
          "compiled program's validity output is ", validity.toString()));
    }
    result.faults =
        DecodeValidity(absl::MakeConstSpan(validity.const_data_ptr<int64_t>(),
                                           validity.numel()),
                       manifest_.guards);
    values.erase(position);
  }
  result.outputs.reserve(values.size());
  for (at::Tensor& value : values) {
    ASSIGN_OR_RETURN(Tensor tensor,
                     FromTorch(std::move(value), inputs, weights_));
    result.outputs.push_back(std::move(tensor));
  }
  return result;
}

absl::StatusOr<RunResult> AotExecutable::Run(ExecutionContext& /*context*/,
                                             absl::Span<const Tensor> inputs) {
  RETURN_IF_ERROR(CheckInputs(inputs));
  try {
    const c10::InferenceMode mode;
    ASSIGN_OR_RETURN(std::vector<at::Tensor> views, ViewAllAsTorch(inputs));
    if (weights_->effects().writes_in_place) {
      for (at::Tensor& view : views) view = view.clone();
    }
    std::vector<at::Tensor> values = runner_->run(views);
    if (!weights_->Unchanged()) {
      return absl::DataLossError(absl::StrCat(
          weights_->path(),
          " was written to while its weights were in use: put new ones into "
          "another version's folder, and load this one again"));
    }
    return SplitOutputs(std::move(values), views);
  } catch (...) {
    return CompiledError(absl::StrCat("compiled program, bucket ",
                                      manifest_.bucket,
                                      " (its own message is on stderr)"));
  }
}

}  // namespace stoker
