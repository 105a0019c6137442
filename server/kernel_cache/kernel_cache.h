// Compiled artifacts on disk, by key. An entry is a folder with the artifact's
// files, manifest.json, which lists each file's size and SHA-256, and
// manifest.sha256, which seals the manifest and can be checked with sha256sum
// -c. Entries are immutable: staged, verified, fsynced, renamed into place.
//
//   <root>/v1/entries/<2 hex>/<64 hex>/{manifest.json,manifest.sha256,...}
//   <root>/v1/staging/<unique>/          being written; removed at Open when
//   ownerless <root>/v1/staging/<unique>.lock      held (flock) by the owner of
//   that folder <root>/v1/quarantine/<hex>.<n>/      damaged entries, with
//   reason.txt; n < 3 <root>/v1/locks/<hex>                one compiler per
//   key, over all daemons <root>/v1/locks/<hex>.move           held while an
//   entry is set aside <root>/v1/notes/<hex>/<name>         small facts beside
//   an entry (verdicts) <root>/v1/scratch/                   the compiler's own
//   caches
//
// Verification finds damage, not malice: whoever can write the root can forge
// an entry, so Open insists that only the daemon's user can.
//
// Thread-safe; several daemons may share one root (flock). No I/O under a
// mutex.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files.h"
#include "kernel_cache/artifact_key.h"
#include "metrics/metrics.h"

namespace stoker {

struct CacheEntry {
  ArtifactKey key;
  std::string folder;         // absolute
  std::string manifest_json;  // verified content
  int64_t bytes = 0;          // of all files
};

class KernelCache {
 public:
  // Creates the folders (mode 0700) and removes staging folders whose owner is
  // dead. PERMISSION_DENIED when the root belongs to somebody else or others
  // may write it. A root on a read-only disk is fine once the folders are
  // there: lookups work, everything else returns a status. `files` and
  // `metrics` must outlive the cache.
  static absl::StatusOr<std::unique_ptr<KernelCache>> Open(
      const std::string& root, Files& files, MetricRegistry& metrics);
  ~KernelCache();

  // The entry, every file of it verified against the manifest; nullopt on a
  // miss. A damaged entry is moved to quarantine with a warning and a counter,
  // and is a miss; one that can't be read is a miss with a warning.
  std::optional<CacheEntry> Lookup(const ArtifactKey& key);

  // Sets an entry aside that verified but could not be opened or run. Notes
  // beside it go, as they were about that artifact.
  void Quarantine(const ArtifactKey& key, std::string_view reason);

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
  // or the end of this object.
  absl::StatusOr<CacheEntry> Commit(const ArtifactKey& key,
                                    const std::string& staging_folder);
  // Removes a staging folder; does nothing with one that is committed or not
  // ours.
  void Abandon(const std::string& staging_folder);

  // Small facts kept beside an entry, replaced atomically. Names: [a-z0-9._-]+,
  // not starting with a dot; others are INVALID_ARGUMENT.
  absl::Status WriteNote(const ArtifactKey& key, std::string_view name,
                         std::string_view bytes);
  std::optional<std::string> ReadNote(const ArtifactKey& key,
                                      std::string_view name);

  // <root>/v1/scratch: kept between compiles, safe to delete.
  std::string scratch_folder() const;

 private:
  struct Impl;
  explicit KernelCache(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
