#include "kernel_cache/eviction.h"

#include <algorithm>
#include <utility>

namespace stoker {

std::vector<Eviction> ChooseEvictions(std::vector<EvictionCandidate> entries,
                                      const CacheLimits& limits,
                                      absl::Time now) {
  int64_t total = 0;
  for (const EvictionCandidate& entry : entries) total += entry.bytes;
  const auto age_order = [now](const EvictionCandidate& a,
                               const EvictionCandidate& b) {
    return std::make_pair(std::min(a.last_used, now), a.key) <
           std::make_pair(std::min(b.last_used, now), b.key);
  };
  std::sort(entries.begin(), entries.end(), age_order);
  std::vector<Eviction> evictions;
  for (const EvictionCandidate& entry : entries) {
    if (entry.pinned) continue;
    const bool too_old = now - entry.last_used > limits.max_age;
    const bool too_much = limits.max_bytes > 0 && total > limits.max_bytes;
    if (!too_old && !too_much) continue;
    evictions.push_back(
        {entry.key, too_old ? "age" : "size", entry.bytes, entry.last_used});
    total -= entry.bytes;
  }
  return evictions;
}

}  // namespace stoker
