#include "models/resource_pools.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"

namespace stoker {
namespace {

const char* Kind(bool global) {
  return global ? "one for all devices" : "one on each device";
}

}  // namespace

ResourcePools::ResourcePools(ResourceLimits limits, Clock& clock,
                             MetricRegistry& metrics)
    : limits_(std::move(limits)), clock_(clock), metrics_(metrics) {}

absl::StatusOr<std::vector<RunDemand::Resource>> ResourcePools::Find(
    const ModelSpec& spec, const std::string& device) {
  std::vector<RunDemand::Resource> found;
  if (!limits_.enforced) return found;
  for (const auto& [name, demand] : spec.resources) {
    RETURN_IF_ERROR(CheckKind(spec, name, demand.global));
    const Pool& pool = PoolOf(name, demand.global, device);
    const std::string shown =
        demand.global ? name : absl::StrCat(name, "@", device);
    if (pool.limit != DeviceTurns::kAsAsked && demand.count > pool.limit) {
      return absl::FailedPreconditionError(absl::StrCat(
          spec.Label(), ": resources.", name, ": expected at most ", pool.limit,
          ", which is what --rate-limit-resource gives as ", shown, ", got ",
          demand.count));
    }
    found.push_back({shown, pool.turns.get(), demand.count});
  }
  return found;
}

absl::Status ResourcePools::CheckKind(const ModelSpec& spec,
                                      const std::string& name,
                                      bool global) const {
  for (const auto& [shown, pool] : pools_) {
    if (pool.name != name || pool.global == global ||
        pool.turns->clients() == 0) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        spec.Label(), ": resources.", name, ": expected ", Kind(pool.global),
        ", as other models have it, got ", Kind(global)));
  }
  return absl::OkStatus();
}

ResourcePools::Pool& ResourcePools::PoolOf(const std::string& name, bool global,
                                           const std::string& device) {
  const std::string shown = global ? name : absl::StrCat(name, "@", device);
  Pool& pool = pools_[shown];
  if (pool.turns != nullptr) return pool;
  pool.name = name;
  pool.global = global;
  for (const ResourceLimit& limit : limits_.limits) {
    if (limit.name != name) continue;
    // What is said of the device in particular holds there, and a global one
    // is of none.
    const bool particular = !global && limit.device == device;
    const bool general = global || limit.device.empty();
    if (particular || (general && pool.limit == DeviceTurns::kAsAsked)) {
      pool.limit = limit.count;
    }
  }
  pool.turns = std::make_unique<DeviceTurns>(pool.limit, clock_);
  const Labels labels = {{"resource", shown}};
  pool.turns->Show(metrics_.Gauge(metric::kResourceUnits, labels),
                   metrics_.Gauge(metric::kResourceUnitsTaken, labels));
  return pool;
}

}  // namespace stoker
