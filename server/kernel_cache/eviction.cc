#include "kernel_cache/eviction.h"

#include <algorithm>
#include <tuple>

namespace stoker {

std::vector<Eviction> ChooseEvictions(std::vector<EvictionCandidate> entries,
                                      const CacheLimits& limits,
                                      absl::Time now) {
  int64_t total = 0;
  for (EvictionCandidate& entry : entries) {
    entry.last_used = std::min(entry.last_used, now);
    total += entry.bytes;
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.last_used, a.key) < std::tie(b.last_used, b.key);
  });
  std::vector<Eviction> evictions;
  for (const EvictionCandidate& entry : entries) {
    if (entry.pinned) continue;
    const bool too_old = now - entry.last_used > limits.max_age;
    const bool too_much = limits.max_bytes > 0 && total > limits.max_bytes;
    if (!too_old && !too_much) continue;
    evictions.push_back({entry.key, too_old ? "age" : "size", entry.bytes});
    total -= entry.bytes;
  }
  return evictions;
}

}  // namespace stoker
