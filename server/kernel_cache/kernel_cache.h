// Compiled artifacts on disk, by key. An entry is a folder with the artifact's files
// and manifest.json, which lists each file's size and SHA-256. Entries are immutable:
// staged, fsynced, renamed into place.
//
//   <root>/v1/entries/<2 hex>/<64 hex>/{manifest.json,...}
//   <root>/v1/staging/<unique>/          being written; removed at Open when ownerless
//   <root>/v1/quarantine/<hex>.<n>/      damaged entries, with reason.txt
//   <root>/v1/locks/<hex>                one compiler per key, over all daemons
//   <root>/v1/notes/<hex>/<name>         small facts beside an entry (verdicts)
//   <root>/v1/scratch/                   the compiler's own caches
//
// Thread-safe; several daemons may share one root (flock). No I/O under a lock.
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
  // Creates the folders (mode 0700) and removes staging folders whose owner is dead.
  // PERMISSION_DENIED when the root belongs to somebody else or others may write it.
  static absl::StatusOr<std::unique_ptr<KernelCache>> Open(std::string root, Files& files,
                                                           MetricRegistry& metrics);
  ~KernelCache();

  // The entry, every file of it verified against the manifest; nullopt on a miss. A
  // damaged entry is moved to quarantine with a warning and a counter, and is a miss.
  std::optional<CacheEntry> Lookup(const ArtifactKey& key);

  // Sets an entry aside that verified but could not be opened or run.
  void Quarantine(const ArtifactKey& key, std::string_view reason);

  // Exclusive right to compile `key`, over all daemons on this root; null while
  // somebody else has it.
  absl::StatusOr<std::unique_ptr<FileLock>> TryLock(const ArtifactKey& key);

  // A fresh empty folder, held by a lock file of this process until committed or
  // abandoned.
  absl::StatusOr<std::string> NewStagingFolder(const ArtifactKey& key);
  // Checks the staged files against their manifest, makes them durable and publishes
  // them. When the entry exists by now the staged one is dropped and the existing one
  // returned. FAILED_PRECONDITION when the manifest does not fit the files or the key.
  absl::StatusOr<CacheEntry> Commit(const ArtifactKey& key, const std::string& staging_folder);
  void Abandon(const std::string& staging_folder);

  // Small facts kept beside an entry, replaced atomically. Names: [a-z0-9._-]+.
  absl::Status WriteNote(const ArtifactKey& key, std::string_view name, std::string_view bytes);
  std::optional<std::string> ReadNote(const ArtifactKey& key, std::string_view name);

  // <root>/v1/scratch: kept between compiles, safe to delete.
  std::string scratch_folder() const;

 private:
  struct Impl;
  explicit KernelCache(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
