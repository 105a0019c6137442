#include "ctl/planned_buckets.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/bucket_choice.h"
#include "models/placement.h"
#include "models/traffic.h"

namespace stoker {

absl::StatusOr<std::vector<PlannedBucket>> PlannedBuckets(
    const KernelCache& cache, ModelRepository& repository,
    const Toolchain& toolchain, int cores, const std::string& model) {
  ASSIGN_OR_RETURN(const RepositorySnapshot wanted, repository.Poll());
  std::vector<PlannedBucket> buckets;
  bool found = model.empty();
  for (const DesiredVersion& version : wanted) {
    if (!model.empty() && version.model != model) continue;
    found = true;
    if (!version.spec.ok()) return version.spec.status();
    std::shared_ptr<const ModelSpec> spec = *version.spec;
    if (!spec->compile.enabled) continue;
    const int threads = ComputeThreads(*spec, InstanceCpus(*spec), cores);
    if (spec->auto_buckets) {
      const auto traffic = ReadTraffic(cache, *spec);
      if (traffic.ok()) {
        auto chosen = std::make_shared<ModelSpec>(*spec);
        chosen->buckets =
            ChooseAutoBuckets(*spec, *traffic,
                              KnownBuckets(cache, *spec, threads, toolchain))
                .buckets;
        spec = std::move(chosen);
      }
    }
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
