// What the kernel cache knows of a program's buckets: how long compiles took,
// and what runs cost.
//
// Thread-safe; reads the cache, changes nothing.
#pragma once

#include <cstdint>

#include "kernel_cache/kernel_cache.h"
#include "planning/evidence_store.h"
#include "planning/run_cost.h"
#include "repository/model_spec.h"
#include "runner/toolchain.h"

namespace stoker {

// What is known of a program's buckets on such a host.
struct BucketExperience {
  // Fitted to what was timed of the artifacts of this program, whatever the
  // bucket. Where nothing was, a guess in elements (planning/run_cost.h).
  RunCost compiled;
  RunCost eager;  // a guess when it is not measured(): twice `compiled`
  int measured_buckets = 0;
  double compile_seconds = 0;  // mean of a bucket; 0: never compiled
  int64_t artifact_bytes = 0;  // mean of a bucket; 0: never compiled
};

// `here`: its threads as in ComputeThreads. Reads every manifest of the cache.
BucketExperience KnownBuckets(const KernelCache& cache, const ModelSpec& spec,
                              const TimedOn& here, const Toolchain& toolchain);

}  // namespace stoker
