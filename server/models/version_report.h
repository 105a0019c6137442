// What became of versions and their buckets, for people: plain values, each a
// copy of one moment.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "models/bucket_slot.h"
#include "models/version_state.h"

namespace stoker {

// A line of the repository index.
struct VersionStatus {
  std::string model;
  int64_t version = 0;
  VersionState state = VersionState::kNew;
  std::string reason;  // "warming up: bucket 3 of 8 (batch=1,tokens=64): build,
                       // 12 s", or an error
  bool newest = false;
  // It serves, and isn't in memory, or comes back there: its requests wait for
  // that.
  bool rests = false;
  // Whether requests are taken.
  bool ready() const { return state == VersionState::kServing || rests; }
  // Each with its percentage of the requests that name no version.
  std::map<std::string, int> aliases;
};

struct BucketStatus {
  std::string model;     // "minilm:1"
  std::string bucket;    // "batch=8,tokens=32"
  bool dynamic = false;  // a dynamic form, "batch=any,tokens=any"
  BucketSlot::Snapshot slot;
  // Of the compile, and for how long so far; empty where none runs.
  std::string phase;
  absl::Duration in_phase = absl::ZeroDuration();
};

struct WarmupProgress {
  int settled = 0;
  int total = 0;
  // By the buckets that were settled since the warm-up began, which excludes
  // what was opened from the cache; nullopt before the first of them and at the
  // end. The first ones teach the compiler's caches, so that it is rather too
  // long.
  std::optional<absl::Duration> left;
};

struct VersionReport {
  VersionStatus status;
  // "cpu", "cuda:0, cuda:1"; empty when not loaded. "cuda:auto" is one of them.
  std::string device;
  WarmupProgress warmup;
  bool improved = false;  // what the warm-up leaves for quiet hours is done
  std::vector<BucketStatus> buckets;  // in the plan's order; none when not
                                      // loaded
};

}  // namespace stoker
