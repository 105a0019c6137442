// Which entries a cache that has become too large or too old lets go.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "kernel_cache/artifact_key.h"

namespace stoker {

struct CacheLimits {
  int64_t max_bytes = 0;  // of all that is kept together; 0: no limit
  // Since an entry was last looked up.
  absl::Duration max_age = absl::InfiniteDuration();
};

struct EvictionCandidate {
  ArtifactKey key;
  int64_t bytes = 0;
  absl::Time last_used;
  bool pinned = false;
};

struct Eviction {
  ArtifactKey key;
  std::string_view reason;  // "age" or "size"
  int64_t bytes = 0;
  absl::Time last_used;  // the candidate's: another one is another entry
};

// What is too old, then the least recently used until the rest fits; in that
// order. Pinned entries count, but stay. A time in the future, after a clock
// went backwards, is now. Pure.
std::vector<Eviction> ChooseEvictions(std::vector<EvictionCandidate> entries,
                                      const CacheLimits& limits,
                                      absl::Time now);

}  // namespace stoker
