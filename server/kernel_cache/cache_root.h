// The folders of one kernel cache: the root, which only this daemon's user
// writes, and below it layers that somebody else has filled and that are only
// read. Makes the root's folders, checks whose they all are, and writes files
// there that are whole or not there at all. What an entry or a fact is, is
// entry_store.h's and fact_store.h's to know.
//
//   <root>/v1/entries/<2 hex>/<64 hex>/  entries
//   <root>/v1/notes/<hex>/<name>         facts about an entry
//   <root>/v1/traffic/<model>.<kind>     facts about a model
//   <root>/v1/staging/<unique>/          being written
//   <root>/v1/staging/<unique>.lock      held (flock) by its owner
//   <root>/v1/quarantine/<hex>.<n>/      damaged entries, with reason.txt; n<3
//   <root>/v1/locks/<hex>                one compiler per key, over all daemons
//   <root>/v1/locks/<hex>.use            shared by those who use the entry
//   <root>/v1/locks/<hex>.move           held while it is set aside or evicted
//   <root>/v1/scratch/                   the compiler's own caches
//
// A root that can't be written (read-only, full, no permission) costs what
// needs writing and nothing else.
//
// Private to this room. Thread-safe: nothing changes after Open but the staging
// area, which has a lock of its own. No I/O under a mutex.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files.h"
#include "kernel_cache/artifact_key.h"
#include "kernel_cache/cache_layer.h"
#include "kernel_cache/staging_area.h"

namespace stoker {

class CacheRoot {
 public:
  // Creates the folders (mode 0700) and removes staging folders whose owner is
  // dead. PERMISSION_DENIED when the root belongs to somebody else or others
  // may write it, or that holds for a layer, or a layer is not signed by one of
  // `trusted`, if there are any; NOT_FOUND when a layer holds no cache. A disk
  // that is full, read-only or forbidden is fine: see writable(). `files`
  // outlives this object.
  static absl::StatusOr<std::unique_ptr<CacheRoot>> Open(
      const std::string& root, const std::vector<std::string>& layers,
      const std::vector<PublicKey>& trusted, Files& files);
  CacheRoot(const CacheRoot&) = delete;
  CacheRoot& operator=(const CacheRoot&) = delete;

  // Why nothing can be written, or OK. What could be written at Open may fail
  // later all the same.
  const absl::Status& writable() const { return writable_; }

  // The root first.
  const std::vector<CacheLayer>& layers() const { return layers_; }
  const CacheLayer& top() const { return layers_.front(); }

  // <root>/v1/<name>, of one of those above.
  std::string Folder(std::string_view name) const;
  enum class Lock { kCompile, kUse, kMove };
  std::string LockPath(const ArtifactKey& key, Lock lock) const;

  // Puts a file in place of what has that name in `folder`, which is below the
  // root and made where it is missing. Durable when it returns OK; on error the
  // old content stays.
  absl::Status Replace(const std::string& folder, std::string_view name,
                       std::string_view bytes);

  Files& files() const { return files_; }
  StagingArea& staging() { return staging_; }

 private:
  CacheRoot(std::vector<CacheLayer> layers, Files& files);
  absl::Status CheckOwners(const std::string& root) const;
  absl::Status MakeFolders() const;
  // Why the file system takes no locks that it has.
  absl::Status TryLocks() const;

  const std::vector<CacheLayer> layers_;
  Files& files_;
  absl::Status writable_;  // written by Open only
  StagingArea staging_;
};

}  // namespace stoker
