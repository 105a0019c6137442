#include "models/auto_buckets.h"

#include <utility>

#include "base/log.h"
#include "planning/bucket_choice.h"
#include "planning/placement.h"

namespace stoker {
namespace {

bool IsAuto(const ModelSpec& spec, const VersionDeps& deps) {
  return spec.auto_buckets && spec.compile.enabled && deps.cache != nullptr;
}

AutoBuckets Choose(const ModelSpec& spec, const VersionDeps& deps,
                   const Toolchain& toolchain, const ModelTraffic& recorded) {
  const int threads = ComputeThreads(spec, InstanceCpus(spec), deps.cores);
  return ChooseAutoBuckets(
      spec, recorded.Read(),
      KnownBuckets(*deps.cache, spec, {deps.machine, threads}, toolchain));
}

// The spec with these buckets, which are remembered.
std::shared_ptr<const ModelSpec> Take(const ModelSpec& spec, AutoBuckets chosen,
                                      ModelTraffic& recorded) {
  log::Info("{}: buckets: auto: {}", spec.Label(), chosen.why);
  if (chosen.changed) recorded.SetChosen(chosen.buckets);
  auto changed = std::make_shared<ModelSpec>(spec);
  changed->buckets = std::move(chosen.buckets);
  return changed;
}

}  // namespace

std::shared_ptr<const ModelSpec> WithChosenBuckets(
    std::shared_ptr<const ModelSpec> spec, const VersionDeps& deps,
    const Toolchain& toolchain, ModelTraffic& recorded) {
  if (!IsAuto(*spec, deps)) return spec;
  return Take(*spec, Choose(*spec, deps, toolchain, recorded), recorded);
}

std::shared_ptr<const ModelSpec> WithBetterBuckets(const ModelSpec& spec,
                                                   const VersionDeps& deps,
                                                   const Toolchain& toolchain,
                                                   ModelTraffic& recorded) {
  if (!IsAuto(spec, deps)) return nullptr;
  AutoBuckets chosen = Choose(spec, deps, toolchain, recorded);
  if (!chosen.changed) return nullptr;
  return Take(spec, std::move(chosen), recorded);
}

}  // namespace stoker
