// Folders that are being written, each owned by one live process. Beside every
// folder lies a lock file that its owner holds (flock): the lock ends with the
// process, however that one ends, so folders of the dead can be told from those
// of the living, over containers and pid reuse as well.
//
// Where the file system has no locks, a folder counts as dead after a day.
//
// Thread-safe. No I/O under the mutex.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/files.h"

namespace stoker {

class StagingArea {
 public:
  // `files` must outlive this object; `root` exists.
  StagingArea(std::string root, Files& files);
  // Removes the folders that are still owned.
  ~StagingArea();
  StagingArea(const StagingArea&) = delete;
  StagingArea& operator=(const StagingArea&) = delete;

  // Removes what dead processes left behind. An error leaves the rest for next
  // time.
  absl::Status RemoveOwnerless();

  // A new empty folder <root>/<prefix>-<random>.
  absl::StatusOr<std::string> NewFolder(std::string_view prefix);

  bool Owns(const std::string& folder) const;

  // Removes the folder, if it is still there, and its lock. Does nothing with a
  // folder that is not owned.
  void Release(const std::string& folder);

 private:
  static std::string LockPath(const std::string& folder);
  bool IsOld(const std::string& path) const;

  const std::string root_;
  Files& files_;

  mutable absl::Mutex mu_;
  std::map<std::string, std::unique_ptr<FileLock>> owned_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
