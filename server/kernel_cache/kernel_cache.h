// A kernel cache: a folder of compiled artifacts and of what is known about
// them. Opens the folder and holds its two halves; whoever needs one of them
// takes that one:
//
//   EntryStore   artifacts by key: lookup, commit, quarantine, eviction
//   FactStore    notes beside an artifact, records about a model
//
// cache_root.h draws the folder.
//
// Thread-safe; several daemons may share one root.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/files.h"
#include "kernel_cache/cache_root.h"
#include "kernel_cache/entry_store.h"
#include "kernel_cache/fact_store.h"
#include "metrics/metrics.h"

namespace stoker {

class RecentRefusals;

struct KernelCacheOptions {
  std::string root;
  std::vector<std::string> layers;  // the first one first
  // Public keys (PEM), of which one must have signed each layer; empty: nobody
  // need have.
  std::vector<std::string> trust;
  // Hears of entries that are set aside or passed over; outlives the cache, may
  // be null.
  RecentRefusals* refusals = nullptr;
};

class KernelCache {
 public:
  // Errors as PublicKey::Load and CacheRoot::Open. `files` and `metrics`
  // outlive the cache.
  static absl::StatusOr<std::unique_ptr<KernelCache>> Open(
      const KernelCacheOptions& options, Files& files, MetricRegistry& metrics);

  EntryStore& entries() { return entries_; }
  const EntryStore& entries() const { return entries_; }
  FactStore& facts() { return facts_; }
  const FactStore& facts() const { return facts_; }

 private:
  KernelCache(std::unique_ptr<CacheRoot> root, MetricRegistry& metrics,
              RecentRefusals* refusals)
      : root_(std::move(root)),
        facts_(*root_),
        entries_(*root_, facts_, metrics, refusals) {}

  const std::unique_ptr<CacheRoot> root_;
  FactStore facts_;
  EntryStore entries_;
};

}  // namespace stoker
