#include "ctl/planned_buckets.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planning/bucket_choice.h"
#include "planning/placement.h"
#include "planning/traffic.h"

namespace stoker {

namespace {

absl::Status NoSuchModel(const ModelRepository& repository,
                         const std::string& model) {
  return absl::NotFoundError(absl::StrCat("the repository ", repository.root(),
                                          " has no model '", model, "'"));
}

// Keys of a model on a GPU depend on which one it is, and stokerctl loads
// nothing that could tell.
absl::Status CheckKeysKnown(const ModelSpec& spec, const Toolchain& toolchain) {
  if (!spec.on_gpu() || toolchain.gpu.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      spec.Label(), " runs on ", spec.devices.front().Text(),
      ": its keys depend on that GPU, which only stokerd looks at; --gpu says "
      "what it is, as stokerd's log does where it loads the model"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ModelSpec>> NewestVersion(
    ModelRepository& repository, const Toolchain& toolchain,
    const std::string& model) {
  ASSIGN_OR_RETURN(const RepositorySnapshot wanted, repository.Poll());
  const DesiredVersion* newest = nullptr;
  for (const DesiredVersion& version : wanted) {
    if (version.model == model) newest = &version;
  }
  if (newest == nullptr) return NoSuchModel(repository, model);
  if (newest->spec.ok()) {
    if ((*newest->spec)->pipeline != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a model with a program, got ", model,
                       ", which is made of others: ask for one of those"));
    }
    RETURN_IF_ERROR(CheckKeysKnown(**newest->spec, toolchain));
  }
  return newest->spec;
}

std::vector<PlannedBucket> BucketsOf(const KernelCache& cache,
                                     std::shared_ptr<const ModelSpec> spec,
                                     const Toolchain& toolchain, int cores) {
  const int threads = ComputeThreads(*spec, InstanceCpus(*spec), cores);
  if (spec->auto_buckets) {
    const auto traffic = ReadTraffic(cache.facts(), *spec);
    if (traffic.ok()) {
      auto chosen = std::make_shared<ModelSpec>(*spec);
      chosen->buckets =
          ChooseAutoBuckets(
              *spec, *traffic,
              KnownBuckets(cache, *spec, {MachineId(), threads}, toolchain))
              .buckets;
      spec = std::move(chosen);
    }
  }
  std::vector<PlannedBucket> buckets;
  for (WarmupStep& step : MakeWarmupPlan(*spec, toolchain)) {
    if (step.wanted) buckets.push_back({spec, std::move(step)});
  }
  return buckets;
}

absl::StatusOr<std::vector<double>> PayBackOf(const KernelCache& cache,
                                              const ModelSpec& spec,
                                              const Toolchain& toolchain,
                                              int cores) {
  ASSIGN_OR_RETURN(const TrafficRecord traffic,
                   ReadTraffic(cache.facts(), spec));
  const int threads = ComputeThreads(spec, InstanceCpus(spec), cores);
  return RequestsToPayBack(
      spec, traffic,
      KnownBuckets(cache, spec, {MachineId(), threads}, toolchain));
}

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
    if (!(*version.spec)->compile.enabled) continue;
    RETURN_IF_ERROR(CheckKeysKnown(**version.spec, toolchain));
    for (PlannedBucket& bucket :
         BucketsOf(cache, *version.spec, toolchain, cores)) {
      buckets.push_back(std::move(bucket));
    }
  }
  if (!found) return NoSuchModel(repository, model);
  return buckets;
}

}  // namespace stoker
