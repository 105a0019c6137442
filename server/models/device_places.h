// Which devices a version runs on: what model.yaml says, looked up among those
// that this host has.
//
// Not thread-safe: the lifecycle thread's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "batching/device_turns.h"
#include "batching/run_turns.h"
#include "metrics/metrics.h"
#include "models/resource_pools.h"
#include "repository/model_spec.h"
#include "runner/executable_loader.h"
#include "runner/gpus.h"
#include "runner/toolchain.h"

namespace stoker {

// A device of a version. What is behind the pointers outlives the version.
struct DevicePlace {
  std::string name;  // "cpu", "cuda:0"
  ExecutableLoader* loader = nullptr;
  DeviceTurns* turns = nullptr;  // of all models on it
  // Named ones, of which each run takes some.
  std::vector<RunDemand::Resource> resources = {};
};

struct Placement {
  std::vector<DevicePlace> places;  // at least one; equal GPUs
  std::optional<GpuTarget> gpu;     // what code for them is made for
};

class DevicePlaces {
 public:
  // Asked when a model is first to run on a GPU; the Gpus outlive this object.
  using FindGpus = std::function<absl::StatusOr<Gpus*>()>;

  // What is passed by reference outlives this object. `find_gpus` empty: there
  // are none.
  DevicePlaces(int cores, ExecutableLoader& cpu, FindGpus find_gpus,
               ResourceLimits limits, Clock& clock, MetricRegistry& metrics);

  // FAILED_PRECONDITION in one line: what was asked for, what is missing, what
  // to do (resource_pools.h); UNAVAILABLE when a GPU doesn't start.
  absl::StatusOr<Placement> Find(const ModelSpec& spec);

 private:
  // Of models that wait while another one runs on the CPU. Most runs are
  // shorter, and are the faster for having the cores to themselves.
  static constexpr absl::Duration kPatience = absl::Milliseconds(200);

  absl::StatusOr<Placement> FindDevices(const ModelSpec& spec);
  absl::StatusOr<Placement> FindOnGpus(const ModelSpec& spec, Gpus& gpus);
  DeviceTurns& TurnsOf(int gpu);
  void Show(DeviceTurns& turns, const std::string& device);

  Clock& clock_;
  MetricRegistry& metrics_;
  const FindGpus find_gpus_;
  ExecutableLoader& cpu_;
  DeviceTurns cpu_turns_;
  std::map<int, std::unique_ptr<DeviceTurns>> gpu_turns_;  // by index
  ResourcePools pools_;
};

}  // namespace stoker
