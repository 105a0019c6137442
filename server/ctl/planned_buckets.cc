#include "ctl/planned_buckets.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/placement.h"

namespace stoker {

absl::StatusOr<std::vector<PlannedBucket>> PlannedBuckets(
    ModelRepository& repository, const Toolchain& toolchain, int cores,
    const std::string& model) {
  ASSIGN_OR_RETURN(const RepositorySnapshot wanted, repository.Poll());
  std::vector<PlannedBucket> buckets;
  bool found = model.empty();
  for (const DesiredVersion& version : wanted) {
    if (!model.empty() && version.model != model) continue;
    found = true;
    if (!version.spec.ok()) return version.spec.status();
    const std::shared_ptr<const ModelSpec>& spec = *version.spec;
    if (!spec->compile) continue;
    const int threads = ComputeThreads(*spec, InstanceCpus(*spec), cores);
    for (WarmupStep& step : MakeWarmupPlan(*spec, threads, toolchain)) {
      buckets.push_back({spec, std::move(step)});
    }
  }
  if (!found) {
    return absl::NotFoundError(absl::StrCat(
        "the repository ", repository.root(), " has no model '", model, "'"));
  }
  return buckets;
}

}  // namespace stoker
