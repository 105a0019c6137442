// What a kernel cache counts. Private to this room; thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernel_cache/artifact_key.h"
#include "metrics/metrics.h"

namespace stoker {

class RecentRefusals;

class CacheMetrics {
 public:
  // Both outlive this object; `refusals` may be null.
  CacheMetrics(MetricRegistry& registry, RecentRefusals* refusals)
      : registry_(registry), refusals_(refusals) {}

  void SetWritable(bool writable);
  // Lookups. `layer`: 0 is the root.
  void Hit(int layer, double compile_seconds_saved);
  void Damaged(int layer);
  void Miss();
  // "ok", with what it adds.
  void Committed(int64_t bytes);
  // "duplicate", where somebody else was faster, or "failed".
  void CommitEnded(const char* result);
  // `label`: as in EntryCheck::reason, or "open".
  void Rejected(const ArtifactKey& key, std::string_view label,
                std::string_view reason);
  void Evicted(std::string_view reason);
  void SetUse(int64_t entries, int64_t bytes, int64_t other_bytes);

 private:
  MetricRegistry& registry_;
  RecentRefusals* const refusals_;  // may be null
};

}  // namespace stoker
