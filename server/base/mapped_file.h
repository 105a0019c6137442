// A file mapped for reading whose disappearance the process outlives.
//
// Somebody may cut the file short or write into it: the mapping shows that, or
// raises SIGBUS where the file has ended. After OutliveLostPages a lost page
// reads as zeros instead, and the stamp tells that it may be one.
//
// Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "base/lost_pages.h"

namespace stoker {

class MappedFile {
 public:
  // INVALID_ARGUMENT for what is no file, or empty.
  static absl::StatusOr<std::unique_ptr<const MappedFile>> Open(
      const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }
  // Leads to this very file, whatever has its name by now, for as long as this
  // object lives; also in other processes of this user.
  std::string held_path() const;

  // The same bytes, which may be written to: what is written is a copy of its
  // page, which nobody else sees and which goes with the memory. The rest stays
  // the file's, shared with all who map it. Outlives this object.
  absl::StatusOr<std::shared_ptr<std::byte>> CopyOnWrite() const;

  // Another one each time when somebody has written to the file or cut it, but
  // not when it was replaced by another of its name.
  struct Stamp {
    int64_t size = -1;
    int64_t seconds = 0, nanoseconds = 0;  // of the last change
    bool operator==(const Stamp&) const = default;
  };
  // Now: what was read before was the content of that stamp or an earlier one.
  // Takes 0.3 us.
  Stamp stamp() const;

 private:
  MappedFile(FileDescriptor file, const char* data, size_t size);

  const FileDescriptor file_;
  const char* const data_;
  const size_t size_;
  std::unique_ptr<PageGuard> guard_;  // goes before the mapping
};

}  // namespace stoker
