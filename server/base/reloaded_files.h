// Files that are read again when they change, as certificates and policies are.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace stoker {

// What a file looks like: enough to notice that it was replaced or rewritten.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t seconds = 0;  // of its last change
  int64_t nanoseconds = 0;

  bool operator==(const FileStamp&) const = default;
};

// nullopt: there is nothing at `path`. Links are followed: where files are
// mounted, what is exchanged is a link. `mode` gets the type, unless null.
std::optional<FileStamp> ReadFileStamp(const std::string& path,
                                       mode_t* mode = nullptr);

// Not thread-safe.
class ReloadedFiles {
 public:
  // To be made before the files are read for the first time.
  explicit ReloadedFiles(std::vector<std::string> paths);

  // Calls `load` when a file has changed, and again after it has failed: a file
  // may have been half written. nullopt: there is nothing new to say, since
  // nothing changed, or it failed as it did before.
  std::optional<absl::Status> Look(absl::FunctionRef<absl::Status()> load);

 private:
  std::vector<std::optional<FileStamp>> ReadStamps() const;

  const std::vector<std::string> paths_;
  std::vector<std::optional<FileStamp>> stamps_;
  std::string complaint_;  // empty: the last load was right
};

}  // namespace stoker
