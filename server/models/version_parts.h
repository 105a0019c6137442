// The parts of a version that its warm-up works on. All of them outlive
// whatever holds this.
#pragma once

#include <stop_token>
#include <vector>

#include "batching/batcher.h"
#include "models/device_threads.h"
#include "models/executable_tiers.h"
#include "models/made_up_inputs.h"
#include "models/version_deps.h"
#include "planning/warmup_plan.h"
#include "repository/model_spec.h"

namespace stoker {

struct VersionParts {
  const ModelSpec& spec;
  const VersionDeps& deps;
  const std::vector<WarmupStep>& plan;
  const BatchLayout& layout;
  const MadeUpInputs& made_up;
  int compute_threads;  // of each device thread
  ExecutableTiers& tiers;
  Batcher& batcher;
  const DeviceThreads& device_threads;
  std::stop_token stop;  // the version goes: whatever is being done ends soon

  bool stopping() const { return stop.stop_requested(); }
};

}  // namespace stoker
