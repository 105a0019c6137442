// A read-only, memory-mapped ZIP archive whose members are stored uncompressed,
// as torch.export.save writes them. The file is untrusted: every offset is
// checked against the mapping, and an archive is refused (INVALID_ARGUMENT,
// with the path and what is wrong) when a member is compressed or encrypted,
// overlaps another, has a name that is empty or absolute, holds a ".." part, a
// backslash or a control character, appears twice (case ignored, as torch looks
// names up), or when there are more than kMaxArchiveMembers of them. ZIP64 is
// understood. What other readers might read differently is refused too: an
// archive comment, a second name in an extra field, gaps around the central
// directory, records that contradict each other.
//
// Immutable after Open; thread-safe. Views stay valid as long as the archive
// (share it). Pages come from the page cache, shared by all processes that map
// the file: replace model files by rename, never in place (base/mapped_file.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/mapped_file.h"
#include "program/zip_directory.h"

namespace stoker {

class ZipArchive {
 public:
  // ReadChecked verifies the checksum.
  using Member = ZipEntry;

  static absl::StatusOr<std::shared_ptr<const ZipArchive>> Open(
      const std::string& path);

  const std::string& path() const { return path_; }
  // As MappedFile says.
  std::string held_path() const { return file_->held_path(); }
  // Whether the views have shown what the file held when it was opened. One
  // that somebody has touched since is compared with its checksums, once each
  // time: a second for each few gigabytes.
  bool Unchanged() const ABSL_LOCKS_EXCLUDED(mu_);
  // By full name, sorted.
  const ZipEntries& members() const { return members_; }

  // The content without verification of its checksum (a weight of gigabytes).
  // NOT_FOUND when there is no such member.
  absl::StatusOr<std::string_view> View(std::string_view name) const;

  // The whole file, to be written to without anybody seeing it
  // (base/mapped_file.h); a member begins at its offset.
  absl::StatusOr<std::shared_ptr<std::byte>> CopyOnWrite() const {
    return file_->CopyOnWrite();
  }

  // The content, at most `max_bytes` long, its CRC-32 verified.
  absl::StatusOr<std::string_view> ReadChecked(std::string_view name,
                                               uint64_t max_bytes) const;

 private:
  ZipArchive(std::string path, std::unique_ptr<const MappedFile> file);
  bool ChecksumsHold() const;

  const std::string path_;
  const std::unique_ptr<const MappedFile> file_;
  mutable absl::Mutex mu_;
  mutable MappedFile::Stamp right_ ABSL_GUARDED_BY(mu_);
  mutable MappedFile::Stamp wrong_ ABSL_GUARDED_BY(mu_);
  ZipEntries members_;
};

}  // namespace stoker
