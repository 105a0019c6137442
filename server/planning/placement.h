// Where a version's instances run, and on how many threads each.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "repository/model_spec.h"

namespace stoker {

using CpuSets = std::vector<std::vector<int>>;

// By instance, or one set for all; empty: anywhere. FAILED_PRECONDITION when
// this process may not use what model.yaml asks for.
absl::StatusOr<CpuSets> InstanceCpus(const ModelSpec& spec);

// Compute threads of each instance on a host of `cores`.
int ComputeThreads(const ModelSpec& spec, const absl::StatusOr<CpuSets>& cpus,
                   int cores);

}  // namespace stoker
