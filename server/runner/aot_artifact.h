// What compiled artifacts have in common on every device: their manifest, what
// they need of the host, the constants that they borrow. Private to this room.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runner/artifact_manifest.h"
#include "runner/weight_store.h"
#include "tensor/run_result.h"
#include "tensor/tensor.h"

namespace torch::inductor {
class AOTIModelContainerRunner;
}

namespace stoker {

// manifest.json of an unpacked entry, for `device`, "cpu" or "cuda".
// FAILED_PRECONDITION, with the folder, when the artifact is for another one,
// for another torch or instruction set, or needs a constant that `weights`
// don't have.
absl::StatusOr<ArtifactManifest> ReadArtifact(const std::string& entry_folder,
                                              const std::string& device,
                                              WeightStore& weights);

// Hands the container every constant that it has, by reference: `weights`
// outlive it. Its generated code reads them by names of its own, for which it
// knows the program's.
absl::Status BindConstants(torch::inductor::AOTIModelContainerRunner& runner,
                           const ArtifactManifest& manifest,
                           WeightStore& weights);

// Compiled code doesn't look at what it is given: a wrong shape reads or writes
// foreign memory.
bool TakesInputs(const ArtifactManifest& manifest,
                 absl::Span<const Tensor> inputs);
// INTERNAL, with what was expected and what came, unless it takes them.
absl::Status CheckArtifactInputs(const ArtifactManifest& manifest,
                                 absl::Span<const Tensor> inputs);

// The rows that a run on the host's `values` flagged: takes the validity
// output, where the artifact has one, out of them. INTERNAL when they aren't
// what the manifest says.
absl::StatusOr<std::vector<RowFault>> TakeFaults(
    const ArtifactManifest& manifest, std::vector<at::Tensor>& values);

// Whether it was compiled for more than one set of shapes.
bool IsDynamic(const ArtifactManifest& manifest);

// The same error with the folder before it.
absl::Status InFolder(const std::string& folder, const absl::Status& status);

}  // namespace stoker
