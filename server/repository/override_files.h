// Files that come with a request for a load: they are written to a folder that
// is private to this process and to one load, and that goes when they have been
// read; whoever has read one holds it open, so that the disk has it for as long
// as somebody serves it. What is held so has limits. Private to this room.
//
// Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "repository/snapshot_source.h"

namespace stoker {

class OverrideFiles {
 public:
  explicit OverrideFiles(const OverrideLimits& limits);
  ~OverrideFiles();

  // Goes with all that is in it.
  class Folder {
   public:
    explicit Folder(std::string path) : path_(std::move(path)) {}
    ~Folder();
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    const std::string& path() const { return path_; }

   private:
    const std::string path_;
  };
  struct Written {
    std::unique_ptr<const Folder> folder;
    // The files count until its last copy is gone.
    std::shared_ptr<const void> claim;
  };

  // INVALID_ARGUMENT: a name that no file of a model's folder has, or no
  // program among them. RESOURCE_EXHAUSTED: more than the limits leave, or than
  // the disk. Nothing is left behind then. Takes as long as the disk.
  absl::StatusOr<Written> Write(
      const std::map<std::string, std::string>& files);

 private:
  struct Held;

  const OverrideLimits limits_;
  const std::shared_ptr<Held> held_;
};

}  // namespace stoker
