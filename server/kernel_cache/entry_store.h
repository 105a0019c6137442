// Compiled artifacts on disk, by key. An entry is a folder with the artifact's
// files, manifest.json, which lists each file's size and SHA-256, and
// manifest.sha256, which seals the manifest and can be checked with sha256sum
// -c. Entries are immutable: staged, verified, fsynced, renamed into place.
//
// Below the root may lie layers that are only read: lookups fall through them
// in order, everything new goes to the root.
//
// Verification finds damage, not malice: whoever can write a folder can forge
// an entry, so only folders that the daemon's user alone can write (or root, of
// a layer) are opened at all.
//
// Several daemons may share one root (flock). On a file system without locks
// two of them may compile one key: the first entry stays.
//
// Thread-safe. No I/O under a mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/files.h"
#include "kernel_cache/artifact_key.h"
#include "kernel_cache/cache_layer.h"
#include "kernel_cache/cache_metrics.h"
#include "kernel_cache/cache_root.h"
#include "kernel_cache/entry_check.h"
#include "kernel_cache/entry_removal.h"
#include "kernel_cache/eviction.h"
#include "kernel_cache/fact_store.h"
#include "kernel_cache/leftovers.h"
#include "metrics/metrics.h"

namespace stoker {

class RecentRefusals;

struct CacheEntry {
  ArtifactKey key;
  ArtifactId id() const;       // of the verified content
  std::string folder;          // absolute, as people know it
  std::string manifest_json;   // verified content
  double compile_seconds = 0;  // what its compile took, wherever that was
  int64_t bytes = 0;           // of all files
  int layer = 0;               // 0: the root; else the n-th below it

  // Leads to the very files that were verified; to be opened from here.
  std::shared_ptr<const OpenFolder> verified;
  // While somebody holds it, nobody evicts the entry. Null where locks can't be
  // had; such an entry may go while it is in use, which harms no one who has
  // opened it.
  std::shared_ptr<const FileLock> lease;
};

struct CacheUse {
  int64_t entries = 0;
  int64_t bytes = 0;
  int64_t evicted_entries = 0;
  int64_t evicted_bytes = 0;
  int64_t other_bytes = 0;  // of all that is no entry
};

class EntryStore {
 public:
  // All outlive this object; `refusals`, which may be null, hears of entries
  // that are set aside or passed over. Facts about an entry go with it.
  EntryStore(CacheRoot& root, FactStore& facts, MetricRegistry& metrics,
             RecentRefusals* refusals);
  EntryStore(const EntryStore&) = delete;
  EntryStore& operator=(const EntryStore&) = delete;

  // Why nothing can be written, or OK. What could be written at the start may
  // fail later all the same.
  const absl::Status& writable() const { return root_.writable(); }

  // The entry, every file of it verified against the manifest; nullopt on a
  // miss. A damaged entry is moved to quarantine with a warning and a counter;
  // in a layer it is masked, with the same noise. One that can't be read is
  // passed over with a warning.
  std::optional<CacheEntry> Lookup(const ArtifactKey& key);

  // What Lookup would look at, without verifying or counting it; nullopt when
  // there is nothing.
  std::optional<ArtifactId> Identify(const ArtifactKey& key);

  // Sets an entry aside that verified but could not be opened or run; one of a
  // layer is masked for as long as this object lives. What somebody else puts
  // in its place is another artifact, and is neither.
  void Quarantine(const CacheEntry& entry, std::string_view reason);

  // Exclusive right to compile `key`, over all daemons on this root; null while
  // somebody else has it.
  absl::StatusOr<std::unique_ptr<FileLock>> TryLock(const ArtifactKey& key);

  // A fresh empty folder, held by a lock file of this process until committed
  // or abandoned.
  absl::StatusOr<std::string> NewStagingFolder(const ArtifactKey& key);
  // Checks the staged files against their manifest, makes them durable and
  // publishes them. When the entry exists by now the staged one is dropped and
  // the existing one returned. FAILED_PRECONDITION when the manifest does not
  // fit the files or the key, or when the folder is none that NewStagingFolder
  // gave out. On error nothing is published and the folder stays until Abandon
  // or the end of the cache.
  absl::StatusOr<CacheEntry> Commit(const ArtifactKey& key,
                                    const std::string& staging_folder);
  // Removes a staging folder; does nothing with one that is committed or not
  // ours.
  void Abandon(const std::string& staging_folder);
  // Kept between compiles, safe to delete.
  std::string scratch_folder() const { return root_.Folder("scratch"); }

  // The root first. What is in them, without verifying it.
  const std::vector<CacheLayer>& layers() const { return root_.layers(); }
  // Of all layers, sorted, each once.
  std::vector<ArtifactKey> Keys() const;

  // The note by which a pin is kept. An entry that is pinned is never evicted.
  static constexpr std::string_view kPinNote = "pinned";
  absl::Status SetPinned(const ArtifactKey& key, bool pinned);

  // The root's entries, as ChooseEvictions takes them.
  std::vector<EvictionCandidate> EvictionCandidates() const;
  // What Evict would let go of them, by their size with the notes on them.
  std::vector<Eviction> Evictions(const CacheLimits& limits,
                                  absl::Time now) const;
  // Lets go what is beyond the limits, and says what is left of the root: first
  // what was set aside and the scratch of the compiler, unless one is at work,
  // then entries that are neither pinned nor in use. Looks at every file's
  // size.
  CacheUse Evict(const CacheLimits& limits, absl::Time now);
  // Lets one entry of the root go, with what is known about it. NOT_FOUND,
  // FAILED_PRECONDITION when it is pinned, UNAVAILABLE when it is in use or the
  // root can't be written.
  absl::Status Remove(const ArtifactKey& key);

 private:
  using Lock = CacheRoot::Lock;

  // Null when there is none to be had.
  std::shared_ptr<const FileLock> Lease(const ArtifactKey& key) const;
  CacheEntry Found(const ArtifactKey& key, EntryCheck check, int layer,
                   std::shared_ptr<const FileLock> lease) const;
  std::optional<CacheEntry> LookupIn(int layer, const ArtifactKey& key,
                                     bool& damaged);
  EntryCheck SetAsideIfBad(const ArtifactKey& key);
  absl::Status MoveToQuarantine(const ArtifactKey& key, std::string_view label,
                                std::string_view reason);
  absl::StatusOr<CacheEntry> CommitStaged(const ArtifactKey& key,
                                          const std::string& staging_folder);
  absl::StatusOr<CacheEntry> Publish(const ArtifactKey& key,
                                     const std::string& staging_folder,
                                     EntryCheck staged);
  bool EvictOne(const Eviction& eviction);
  bool IsMasked(int layer, const ArtifactId& artifact);
  void Mask(int layer, const ArtifactId& artifact);

  // Constant, with locks of their own.
  CacheRoot& root_;
  FactStore& facts_;
  EntryRemoval removal_;
  Leftovers leftovers_;
  CacheMetrics metrics_;

  absl::Mutex mu_;
  // What could not be opened or run and could not be moved: of layers, or of a
  // root that can't be written.
  std::set<std::pair<int, ArtifactId>> masked_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
