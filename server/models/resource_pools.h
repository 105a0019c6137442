// The resources that models name in their model.yaml, of which each of their
// runs takes some: turns on them are taken like those on a device
// (batching/run_turns.h).
//
// Not thread-safe: the lifecycle thread's.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "batching/device_turns.h"
#include "batching/run_turns.h"
#include "metrics/metrics.h"
#include "models/resource_limits.h"
#include "repository/model_spec.h"

namespace stoker {

class ResourcePools {
 public:
  // What is passed by reference outlives this object.
  ResourcePools(ResourceLimits limits, Clock& clock, MetricRegistry& metrics);

  // What a run of the model takes on the device. FAILED_PRECONDITION in one
  // line when it is more than there is, or when other models mean another
  // resource by the name.
  absl::StatusOr<std::vector<RunDemand::Resource>> Find(
      const ModelSpec& spec, const std::string& device);

 private:
  struct Pool {
    std::string name;  // of the resource
    bool global = false;
    int limit = DeviceTurns::kAsAsked;
    std::unique_ptr<DeviceTurns> turns;
  };

  Pool& PoolOf(const std::string& name, bool global, const std::string& device);
  absl::Status CheckKind(const ModelSpec& spec, const std::string& name,
                         bool global) const;

  const ResourceLimits limits_;
  Clock& clock_;
  MetricRegistry& metrics_;
  std::map<std::string, Pool> pools_;  // by the name in metrics
};

}  // namespace stoker
