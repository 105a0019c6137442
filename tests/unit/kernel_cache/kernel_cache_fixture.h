// A kernel cache in memory, and what its metrics say.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernel_cache/kernel_cache.h"
#include "metrics/catalog.h"
#include "metrics/recent_refusals.h"
#include "tests/fakes/temp_folder.h"
#include "tests/unit/kernel_cache/staged_artifact.h"

namespace stoker {

class KernelCacheFixture : public testing::Test {
 protected:
  std::unique_ptr<KernelCache> Open(Files& files) {
    auto cache = KernelCache::Open({.root = root_, .refusals = &refusals_},
                                   files, metrics_);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return cache.ok() ? *std::move(cache) : nullptr;
  }
  std::unique_ptr<KernelCache> Open() { return Open(Files::Real()); }

  absl::StatusOr<CacheEntry> Commit(
      KernelCache& cache, const ArtifactKey& key,
      const ArtifactFiles& files = SmallArtifact()) {
    absl::StatusOr<std::string> folder = cache.entries().NewStagingFolder(key);
    if (!folder.ok()) return folder.status();
    StageArtifact(*folder, key, files);
    absl::StatusOr<CacheEntry> entry = cache.entries().Commit(key, *folder);
    if (!entry.ok()) cache.entries().Abandon(*folder);
    return entry;
  }

  std::string EntryPath(const ArtifactKey& key) {
    return EntryFolderIn(root_, key);
  }
  std::vector<std::string> Names(const std::string& folder) {
    return *Files::Real().List(root_ + "/v1/" + folder);
  }
  double Count(const MetricDef& def, const Labels& labels) {
    return MetricValue(metrics_, def.name, labels);
  }
  double Lookups(const std::string& result) {
    return Count(
        metric::kCacheRequests,
        {{"layer", result == "miss" ? "" : "upper"}, {"result", result}});
  }
  double Rejections(const std::string& reason) {
    return Count(metric::kCacheRejections, {{"reason", reason}});
  }
  double Commits(const std::string& result) {
    return Count(metric::kCacheCommits, {{"result", result}});
  }

  TempFolder folder_{TempFolder::Where::kMemory};
  const std::string root_ = folder_ / "cache";
  MetricRegistry metrics_;
  RecentRefusals refusals_{Clock::Real()};
  const ArtifactKey key_{KeyFactors{{"graph", "g"}}};
  const ArtifactKey other_key_{KeyFactors{{"graph", "h"}}};
};

}  // namespace stoker
