// Files and folders as kernel_cache and repository need them: whole-file reads,
// durable writes, atomic publication. A class so that tests can put faults in
// between (tests/fakes/faulty_files.h). Errors carry the path and strerror,
// with the codes of base/errno_status.h.
//
// Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stoker {

// An advisory whole-file lock (flock); released by the destructor or when the
// process dies, however it dies.
class FileLock {
 public:
  virtual ~FileLock() = default;
  // False on a file system without locks (some network ones), where everybody
  // gets every lock: whoever relies on being alone must look.
  virtual bool excludes() const { return true; }
};

// A folder that is held open. `path()` leads to that very folder, wherever it
// is moved and whatever takes its name, for as long as this object lives. No
// two objects of a process ever have the same path, so that dlopen, which tells
// libraries apart by their names first, never takes one for another.
class OpenFolder {
 public:
  virtual ~OpenFolder() = default;
  const std::string& path() const { return path_; }

 protected:
  explicit OpenFolder(std::string path) : path_(std::move(path)) {}

 private:
  const std::string path_;
};

struct FileInfo {
  enum class Type { kFile, kFolder, kLink, kOther };
  Type type = Type::kOther;
  int64_t bytes = 0;
  uid_t owner = 0;
  mode_t permissions = 0;  // the twelve bits of chmod
  absl::Time modified = absl::InfinitePast();
};

// Whether nobody but its owner can write what `info` is of, and that is this
// user, or root where `root_may_own`. PERMISSION_DENIED, beginning with `what`,
// when not; `mode` is what its mode should be, as in "0700".
absl::Status CheckOnlyOwnerWrites(const FileInfo& info, std::string_view what,
                                  bool root_may_own, std::string_view mode);

class Files {
 public:
  virtual ~Files() = default;

  virtual absl::StatusOr<std::string> Read(const std::string& path) = 0;
  // Creates (mode 0600) or truncates, writes, fsyncs the file. On error it may
  // be left half written.
  virtual absl::Status Write(const std::string& path,
                             std::string_view bytes) = 0;
  // rename(2), then fsync of the parent folder of `to`. Not atomic where a
  // folder would cross from one file system to another, as those of a
  // container's image do: it is copied and removed.
  virtual absl::Status Rename(const std::string& from,
                              const std::string& to) = 0;
  // fsync of every file and folder below `path`, and of `path`.
  virtual absl::Status SyncTree(const std::string& path) = 0;
  // Creates what is missing of `path` with mode 0700 and makes it durable. OK
  // when it is there already.
  virtual absl::Status MakeFolders(const std::string& path) = 0;
  // Removes a file or a whole tree; OK when there is nothing. Links are
  // removed, not followed.
  virtual absl::Status Remove(const std::string& path) = 0;
  // Names (not paths), sorted, without "." and "..".
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder) = 0;
  virtual absl::StatusOr<int64_t> Size(const std::string& path) = 0;
  // Of `path` itself: a link is described, not followed.
  virtual absl::StatusOr<FileInfo> Stat(const std::string& path) = 0;
  // Follows links. NOT_FOUND when there is nothing, FAILED_PRECONDITION when it
  // is no folder.
  virtual absl::StatusOr<std::unique_ptr<OpenFolder>> Hold(
      const std::string& folder) = 0;
  // Sets the time of modification to now.
  virtual absl::Status Touch(const std::string& path) = 0;
  // Takes the lock without waiting; null when somebody else holds it. Creates
  // the file when missing. Whoever holds the lock may remove the file: a later
  // taker gets a lock on a file that is there, never on one that was removed
  // meanwhile.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> TryLock(
      const std::string& path) = 0;
  // The same, but any number may share it; TryLock and TryShare exclude each
  // other.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> TryShare(
      const std::string& path) = 0;

  // The machine's file system. Lives for ever.
  static Files& Real();
};

// The file's content. INVALID_ARGUMENT for more than `most` bytes.
absl::StatusOr<std::string> ReadAtMost(Files& files, const std::string& path,
                                       int64_t most);

}  // namespace stoker
