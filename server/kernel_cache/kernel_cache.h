// Compiled artifacts on disk, by key. An entry is a folder with the artifact's
// files, manifest.json, which lists each file's size and SHA-256, and
// manifest.sha256, which seals the manifest and can be checked with sha256sum
// -c. Entries are immutable: staged, verified, fsynced, renamed into place.
//
//   <root>/v1/entries/<2 hex>/<64 hex>/{manifest.json,manifest.sha256,...}
//   <root>/v1/notes/<hex>/<name>         small facts beside an entry (verdicts)
//   <root>/v1/staging/<unique>/          being written
//   <root>/v1/staging/<unique>.lock      held (flock) by its owner
//   <root>/v1/quarantine/<hex>.<n>/      damaged entries, with reason.txt; n<3
//   <root>/v1/locks/<hex>                one compiler per key, over all daemons
//   <root>/v1/locks/<hex>.use            shared by those who use the entry
//   <root>/v1/locks/<hex>.move           held while it is set aside or evicted
//   <root>/v1/traffic/<model>.json       what the model was asked for
//   <root>/v1/scratch/                   the compiler's own caches
//
// Below this folder may lie layers that are only read: lookups fall through
// them in order, everything new goes to the root.
//
// Verification finds damage, not malice: whoever can write a folder can forge
// an entry, so Open insists that only the daemon's user can (or root, of a
// layer).
//
// A root that can't be written (read-only, full, no permission) costs what
// needs writing and nothing else.
//
// Thread-safe; several daemons may share one root (flock). On a file system
// without locks two of them may compile one key: the first entry stays. No I/O
// under a mutex.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files.h"
#include "kernel_cache/artifact_key.h"
#include "kernel_cache/cache_layer.h"
#include "kernel_cache/eviction.h"
#include "metrics/metrics.h"

namespace stoker {

class RecentRefusals;

struct CacheEntry {
  ArtifactKey key;
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

struct KernelCacheOptions {
  std::string root;
  std::vector<std::string> layers;  // the first one first
  // Hears of entries that are set aside or passed over; outlives the cache, may
  // be null.
  RecentRefusals* refusals = nullptr;
};

struct CacheUse {
  int64_t entries = 0;
  int64_t bytes = 0;
  int64_t evicted_entries = 0;
  int64_t evicted_bytes = 0;
};

class KernelCache {
 public:
  // Creates the folders (mode 0700) and removes staging folders whose owner is
  // dead. PERMISSION_DENIED when the root belongs to somebody else or others
  // may write it, or that holds for a layer; NOT_FOUND when a layer holds no
  // cache. A root on a disk that is full, read-only or forbidden is fine: see
  // writable().
  // `files` and `metrics` must outlive the cache.
  static absl::StatusOr<std::unique_ptr<KernelCache>> Open(
      const KernelCacheOptions& options, Files& files, MetricRegistry& metrics);
  ~KernelCache();

  // Why nothing can be written, or OK. What could be written at Open may fail
  // later all the same.
  const absl::Status& writable() const;

  // The entry, every file of it verified against the manifest; nullopt on a
  // miss. A damaged entry is moved to quarantine with a warning and a counter;
  // in a layer it is masked, with the same noise. One that can't be read is
  // passed over with a warning.
  std::optional<CacheEntry> Lookup(const ArtifactKey& key);

  // Sets an entry aside that verified but could not be opened or run; one of a
  // layer is masked for as long as this object lives. Notes beside it go, as
  // they were about that artifact.
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
  // Of the first layer that has it.
  std::optional<std::string> ReadNote(const ArtifactKey& key,
                                      std::string_view name) const;
  absl::Status RemoveNote(const ArtifactKey& key, std::string_view name);
  // Over all layers, sorted.
  std::vector<std::string> NoteNames(const ArtifactKey& key) const;

  // An entry with this note is never evicted.
  static constexpr std::string_view kPinNote = "pinned";
  // Notes that begin so are about one machine (models/first_run.h).
  static constexpr std::string_view kRanNotePrefix = "ran-on-";
  // Notes that begin so hold a promotion's verdict (promotion/verdict.h).
  static constexpr std::string_view kVerdictNotePrefix = "verdict-";
  // Notes that begin so say what a CUDA graph gained (models/graph_capture.h).
  static constexpr std::string_view kGraphNotePrefix = "graph-";
  // Notes that begin so are for people, and large.
  static constexpr std::string_view kReproducerNotePrefix = "reproducer-";

  // What is known of a model's traffic, by the model's name (letters, digits,
  // '_', '-' and '.'; others are INVALID_ARGUMENT). Replaced atomically; of
  // several daemons on one root the last one's stays.
  absl::Status WriteTraffic(std::string_view model, std::string_view bytes);
  // Of the first layer that has it. NOT_FOUND without any, INVALID_ARGUMENT
  // when it is larger than kMaxTrafficBytes.
  absl::StatusOr<std::string> ReadTraffic(std::string_view model) const;
  // Renames the root's to <model>.json.damaged, with a warning that says why.
  void SetTrafficAside(std::string_view model, std::string_view reason);
  static constexpr int64_t kMaxTrafficBytes = 1 << 20;
  // Requests of the model with their values, likewise; of the root alone:
  // nobody's layer should bring them.
  absl::Status WriteRequests(std::string_view model, std::string_view bytes);
  absl::StatusOr<std::string> ReadRequests(std::string_view model) const;
  static constexpr int64_t kMaxRequestsBytes = 80 << 20;

  // The root first. What is in them, without verifying it.
  const std::vector<CacheLayer>& layers() const;
  // Of all layers, sorted, each once.
  std::vector<ArtifactKey> Keys() const;

  // The root's entries, as ChooseEvictions takes them.
  std::vector<EvictionCandidate> EvictionCandidates() const;
  // Lets go what is beyond the limits and neither pinned nor in use, and says
  // what is left of the root. Looks at every entry's files' sizes.
  CacheUse Evict(const CacheLimits& limits, absl::Time now);

  // <root>/v1/scratch: kept between compiles, safe to delete.
  std::string scratch_folder() const;

 private:
  struct Impl;
  explicit KernelCache(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
