// Files that are read or written from front to back, for those that may be too
// large for memory (base/files.h handles whole files). Errors carry the path
// and strerror, with the codes of base/errno_status.h.
//
// Movable; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace stoker {

class InputFile {
 public:
  // A pipe will do as well.
  static absl::StatusOr<InputFile> Open(const std::string& path);

  // Fills the buffer; fewer bytes than that come only at the file's end.
  absl::StatusOr<size_t> Read(char* buffer, size_t bytes);

  // Takes bytes in pieces of at most 1 MiB, which are gone after the call.
  using Sink = std::function<absl::Status(std::string_view)>;
  // Hands over what comes next, up to `most` bytes, and says how many there
  // were: fewer than that only at the file's end. An error of the sink is
  // returned as it is.
  absl::StatusOr<int64_t> ReadTo(const Sink& sink, int64_t most = kAll);
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

  const std::string& path() const { return path_; }
  int descriptor() const { return fd_.get(); }
  // When it was opened; nullopt of what is not a regular file.
  std::optional<int64_t> size() const { return size_; }

 private:
  InputFile(std::string path, FileDescriptor fd, std::optional<int64_t> size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

  std::string path_;
  FileDescriptor fd_;
  std::optional<int64_t> size_;
  std::unique_ptr<char[]> buffer_;  // of ReadTo
};

class OutputFile {
 public:
  // Mode 0600. ALREADY_EXISTS when there is anything by that name.
  static absl::StatusOr<OutputFile> Create(const std::string& path);

  absl::Status Write(std::string_view bytes);
  // Reports what some file systems only say at the end. Not durable yet.
  absl::Status Close();

 private:
  OutputFile(std::string path, FileDescriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  FileDescriptor fd_;
};

// A file that has no name until it is complete, so that nobody ever sees half
// of it. Without PublishAs nothing is left behind, but for a killed process: a
// hidden file ".draft-<random>" in the folder.
class DraftFile {
 public:
  static absl::StatusOr<DraftFile> CreateIn(const std::string& folder);
  DraftFile(DraftFile&& other) noexcept;
  DraftFile& operator=(DraftFile&&) = delete;
  ~DraftFile();

  absl::Status Write(std::string_view bytes);
  // Makes it durable, readable by all, and renames it to `path`, which must be
  // on the same file system and is replaced when it exists. The last call.
  absl::Status PublishAs(const std::string& path);

 private:
  DraftFile(std::string path, FileDescriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;  // empty once published or moved from
  FileDescriptor fd_;
};

}  // namespace stoker
