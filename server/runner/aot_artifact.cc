#include "runner/aot_artifact.h"

#include <ATen/ATen.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>
#include <torch/version.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "program/operator_libraries.h"
#include "runner/toolchain.h"

namespace stoker {
namespace {

// "2.11.0+cu130" → "2.11.0": builds of one version share their C interface.
std::string_view Release(std::string_view version) {
  return version.substr(0, version.find('+'));
}

absl::Status CheckHost(const ArtifactManifest& manifest,
                       const std::string& device) {
  if (manifest.device != device) {
    return absl::FailedPreconditionError(absl::StrCat(
        "compiled for ", manifest.device, ", opened for ", device));
  }
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

// It calls operators as they were when it was compiled.
absl::Status CheckOperators(const ArtifactManifest& manifest) {
  for (const auto& [name, digest] : manifest.operator_libraries) {
    const OperatorLibrary* const here = FindOperatorLibrary(name);
    if (here == nullptr || here->digest != digest) {
      return absl::FailedPreconditionError(
          absl::StrCat("compiled with the operators of torch.ops.", name,
                       " of a library ", digest, ", this server has ",
                       here == nullptr ? "none of that name" : here->digest));
    }
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

bool Takes(const Tensor& actual, const ArtifactInput& expected) {
  if (actual.dtype != expected.dtype ||
      actual.shape.size() != expected.shape.size()) {
    return false;
  }
  for (size_t d = 0; d < expected.shape.size(); ++d) {
    const int64_t size = actual.shape[d];
    if (expected.range.empty()) {
      if (size != expected.shape[d]) return false;
    } else if (size < expected.range[d].first ||
               size > expected.range[d].second) {
      return false;
    }
  }
  return true;
}

// " of 2 to 64, 2 to 512"
std::string RangeText(const ArtifactInput& input) {
  if (input.range.empty()) return "";
  return absl::StrCat(
      " of ", absl::StrJoin(input.range, ", ", absl::PairFormatter(" to ")));
}

}  // namespace

absl::Status InFolder(const std::string& folder, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(folder, ": ", status.message()));
}

absl::StatusOr<ArtifactManifest> ReadArtifact(const std::string& entry_folder,
                                              const std::string& device,
                                              WeightStore& weights) {
  const auto text = Files::Real().Read(entry_folder + "/manifest.json");
  if (!text.ok()) return InFolder(entry_folder, text.status());
  auto manifest = ParseArtifactManifest(*text);
  if (!manifest.ok()) return InFolder(entry_folder, manifest.status());
  absl::Status status = CheckHost(*manifest, device);
  if (status.ok()) status = CheckOperators(*manifest);
  for (const std::string& name : manifest->constants) {
    if (status.ok()) status = CheckConstant(name, weights);
  }
  if (!status.ok()) return InFolder(entry_folder, status);
  return manifest;
}

absl::Status BindConstants(torch::inductor::AOTIModelContainerRunner& runner,
                           const ArtifactManifest& manifest,
                           WeightStore& weights) {
  const at::ScalarType packed_as =
      manifest.packed_as == DataType::kBf16   ? at::kBFloat16
      : manifest.packed_as == DataType::kFp16 ? at::kHalf
                                              : at::kFloat;
  torch::inductor::TensorConstantMap bound;
  for (const auto& [generated, name] :
       runner.getConstantNamesToOriginalFQNs()) {
    RETURN_IF_ERROR(CheckConstant(name, weights));
    at::Tensor* tensor = weights.Find(name);
    if (manifest.packed.contains(name)) {
      ASSIGN_OR_RETURN(tensor, weights.Packed(name, packed_as));
    } else if (manifest.convolutions.contains(name)) {
      ASSIGN_OR_RETURN(tensor, weights.OfConvolutions(name));
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

bool TakesInputs(const ArtifactManifest& manifest,
                 absl::Span<const Tensor> inputs) {
  return inputs.size() == manifest.inputs.size() &&
         std::equal(inputs.begin(), inputs.end(), manifest.inputs.begin(),
                    Takes);
}

bool IsDynamic(const ArtifactManifest& manifest) {
  return absl::c_any_of(manifest.inputs, [](const ArtifactInput& input) {
    return !input.range.empty();
  });
}

absl::Status CheckArtifactInputs(const ArtifactManifest& manifest,
                                 absl::Span<const Tensor> inputs) {
  if (inputs.size() != manifest.inputs.size()) {
    return absl::InternalError(absl::StrCat("compiled program takes ",
                                            manifest.inputs.size(),
                                            " inputs, got ", inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArtifactInput& expected = manifest.inputs[i];
    const Tensor& actual = inputs[i];
    if (!Takes(actual, expected)) {
      return absl::InternalError(absl::StrCat(
          "compiled program's input '", expected.name, "': expected ",
          Absl(DataTypeName(expected.dtype)), " ", ShapeString(expected.shape),
          RangeText(expected), ", got ", Absl(DataTypeName(actual.dtype)), " ",
          ShapeString(actual.shape)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RowFault>> TakeFaults(
    const ArtifactManifest& manifest, std::vector<at::Tensor>& values) {
  const size_t expected = manifest.outputs + (manifest.validity_output ? 1 : 0);
  if (values.size() != expected) {
    return absl::InternalError(
        absl::StrCat("compiled program answered with ", values.size(),
                     " tensors, its manifest has ", expected));
  }
  if (!manifest.validity_output) return std::vector<RowFault>();
  const auto position = values.begin() + *manifest.validity_output;
  const at::Tensor validity = position->contiguous();
  if (validity.scalar_type() != at::kLong) {
    return absl::InternalError(absl::StrCat(
        "compiled program's validity output is ", validity.toString()));
  }
  values.erase(position);
  return DecodeValidity(
      absl::MakeConstSpan(validity.const_data_ptr<int64_t>(), validity.numel()),
      manifest.guards);
}

}  // namespace stoker
