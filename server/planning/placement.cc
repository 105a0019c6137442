#include "planning/placement.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cpus.h"
#include "base/status_macros.h"

namespace stoker {

absl::StatusOr<CpuSets> InstanceCpus(const ModelSpec& spec) {
  CpuSets sets = spec.cpus;
  if (spec.numa_node.has_value()) {
    ASSIGN_OR_RETURN(std::vector<int> node, NodeCpus(*spec.numa_node));
    sets.push_back(std::move(node));
  }
  const std::vector<int> usable = UsableCpus();
  for (const std::vector<int>& set : sets) {
    for (const int cpu : set) {
      if (std::binary_search(usable.begin(), usable.end(), cpu)) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("CPU ", cpu,
                       ": model.yaml confines an instance to it, this process "
                       "may use ",
                       CpuList(usable)));
    }
  }
  return sets;
}

int ComputeThreads(const ModelSpec& spec, const absl::StatusOr<CpuSets>& cpus,
                   int cores) {
  if (spec.threads > 0) return spec.threads;
  if (spec.on_gpu()) return 1;  // they launch kernels, and wait
  if (cpus.ok() && cpus->size() == 1 && spec.instances > 1) {
    cores = static_cast<int>(cpus->front().size());
  } else if (cpus.ok() && !cpus->empty()) {
    size_t least = cpus->front().size();
    for (const auto& set : *cpus) least = std::min(least, set.size());
    return static_cast<int>(least);
  }
  return std::max(1, cores / spec.instances);
}

}  // namespace stoker
