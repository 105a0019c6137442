// The buckets that a start would warm up, with their artifacts' keys; `buckets:
// auto` resolved as a daemon on this cache resolves it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernel_cache/kernel_cache.h"
#include "planning/warmup_plan.h"
#include "repository/model_repository.h"
#include "runner/toolchain.h"

namespace stoker {

struct PlannedBucket {
  std::shared_ptr<const ModelSpec> spec;
  WarmupStep step;
};

// The newest version of the model. NOT_FOUND for a name that nobody has,
// FAILED_PRECONDITION for one that runs on a GPU which the toolchain doesn't
// name: nobody knows its keys then.
absl::StatusOr<std::shared_ptr<const ModelSpec>> NewestVersion(
    ModelRepository& repository, const Toolchain& toolchain,
    const std::string& model);

// Of one version, whether or not it says `compile: false`; the spec that comes
// along holds the buckets that were chosen.
std::vector<PlannedBucket> BucketsOf(const KernelCache& cache,
                                     std::shared_ptr<const ModelSpec> spec,
                                     const Toolchain& toolchain, int cores);

// RequestsToPayBack of the version on this host.
absl::StatusOr<std::vector<double>> PayBackOf(const KernelCache& cache,
                                              const ModelSpec& spec,
                                              const Toolchain& toolchain,
                                              int cores);

// Of the model, of all for an empty name. Versions that can't be served are an
// error for whoever plans with them, as are those on a GPU that isn't named;
// NOT_FOUND for a name that nobody has.
absl::StatusOr<std::vector<PlannedBucket>> PlannedBuckets(
    const KernelCache& cache, ModelRepository& repository,
    const Toolchain& toolchain, int cores, const std::string& model);

}  // namespace stoker
