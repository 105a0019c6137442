#include "program/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace stoker {

absl::StatusOr<std::shared_ptr<const ZipArchive>> ZipArchive::Open(
    const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<const MappedFile> file,
                   MappedFile::Open(path));
  std::shared_ptr<ZipArchive> archive(new ZipArchive(path, std::move(file)));
  ASSIGN_OR_RETURN(archive->members_,
                   ReadZipDirectory(path, archive->file_->bytes()));
  return archive;
}

ZipArchive::ZipArchive(std::string path, std::unique_ptr<const MappedFile> file)
    : path_(std::move(path)), file_(std::move(file)), right_(file_->stamp()) {}

bool ZipArchive::Unchanged() const {
  const MappedFile::Stamp now = file_->stamp();
  absl::MutexLock lock(&mu_);
  if (now == right_) return true;
  if (now == wrong_) return false;
  const bool right =
      now.size == right_.size && ChecksumsHold() && file_->stamp() == now;
  (right ? right_ : wrong_) = now;
  return right;
}

absl::StatusOr<std::string_view> ZipArchive::View(std::string_view name) const {
  const auto it = members_.find(name);
  if (it == members_.end()) {
    return absl::NotFoundError(
        absl::StrCat(path_, ": no member ", QuotedMember(name)));
  }
  return file_->bytes().substr(it->second.offset, it->second.size);
}

absl::StatusOr<std::string_view> ZipArchive::ReadChecked(
    std::string_view name, uint64_t max_bytes) const {
  ASSIGN_OR_RETURN(const std::string_view content, View(name));
  if (content.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": member ", QuotedMember(name), " has ",
                     content.size(), " bytes, expected at most ", max_bytes));
  }
  const uint32_t recorded = members_.find(name)->second.crc32;
  const auto actual = static_cast<uint32_t>(crc32_z(
      0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
  if (actual != recorded) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": member ", QuotedMember(name), " is damaged: CRC-32 is ",
        absl::Hex(actual, absl::kZeroPad8), ", expected ",
        absl::Hex(recorded, absl::kZeroPad8)));
  }
  return content;
}

bool ZipArchive::ChecksumsHold() const {
  return std::all_of(members_.begin(), members_.end(), [this](const auto& m) {
    return ReadChecked(m.first, m.second.size).ok();
  });
}

}  // namespace stoker
