#include "program/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/absl_view.h"
#include "base/status_macros.h"
#include "program/limits.h"

// Layout and field names follow PKWARE's APPNOTE.TXT 6.3.10. All numbers in the
// file are little-endian.
namespace stoker {
namespace {

constexpr uint32_t kLocalHeaderSignature = 0x04034b50;
constexpr uint32_t kCentralHeaderSignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kEnd64LocatorSignature = 0x07064b50;

constexpr uint64_t kLocalHeaderBytes = 30;
constexpr uint64_t kCentralHeaderBytes = 46;
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kEnd64LocatorBytes = 20;

constexpr uint16_t kFlagEncrypted = 1 << 0;
constexpr uint16_t kFlagStrongEncryption = 1 << 6;
constexpr uint16_t kFlagMaskedHeaders = 1 << 13;
constexpr uint16_t kForbiddenFlags =
    kFlagEncrypted | kFlagStrongEncryption | kFlagMaskedHeaders;

constexpr uint16_t kExtraZip64 = 0x0001;
constexpr uint16_t kExtraUnicodePath = 0x7075;

constexpr uint16_t kIn64Bit16 = 0xffff;
constexpr uint32_t kIn64Bit32 = 0xffffffff;

// A forward reader over bytes whose number was checked by whoever made it.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}

  uint16_t U16() { return static_cast<uint16_t>(Number(2)); }
  uint32_t U32() { return static_cast<uint32_t>(Number(4)); }
  uint64_t U64() { return Number(8); }
  std::string_view Bytes(size_t count) {
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  size_t left() const { return bytes_.size(); }

 private:
  uint64_t Number(size_t count) {
    uint64_t value = 0;
    const std::string_view taken = Bytes(count);
    for (size_t i = taken.size(); i > 0; --i) {
      value = value << 8 | static_cast<unsigned char>(taken[i - 1]);
    }
    return value;
  }

  std::string_view bytes_;
};

// Where the central directory is, and what it claims.
struct Directory {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t members = 0;
};

struct CentralHeader {
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t crc32 = 0;
  uint64_t compressed_bytes = 0;
  uint64_t bytes = 0;
  uint64_t local_header = 0;
  std::string_view name;
};

// A part of the file that belongs to one member.
struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string_view name;
};

std::string Quoted(std::string_view name) {
  constexpr size_t kShown = 80;
  return absl::StrCat("\"", absl::CHexEscape(Absl(name.substr(0, kShown))),
                      name.size() > kShown ? "..." : "", "\"");
}

// Fits a field of the old record to the one of the ZIP64 record: equal, or
// marked as being there. Readers differ in which of two contradicting numbers
// they believe.
bool Agrees(uint64_t old_field, uint64_t marker, uint64_t field) {
  return old_field == field || old_field == marker;
}

}  // namespace

// All offsets below are checked against size_, in an order that cannot
// overflow: first `offset <= size_`, then `bytes <= size_ - offset`.
class ZipIndexer {
 public:
  ZipIndexer(std::string_view path, std::string_view file)
      : path_(path), file_(file) {}

  absl::Status Run(std::map<std::string, ZipArchive::Member, std::less<>>* out);

 private:
  absl::Status Refuse(std::string_view why) const {
    return absl::InvalidArgumentError(
        absl::StrCat(Absl(path_), ": ", Absl(why)));
  }
  bool Holds(uint64_t offset, uint64_t bytes) const {
    return offset <= file_.size() && bytes <= file_.size() - offset;
  }
  uint32_t SignatureAt(uint64_t offset) const {
    return Fields(file_.substr(offset, 4)).U32();
  }

  absl::StatusOr<Directory> FindDirectory() const;
  absl::StatusOr<Directory> FindDirectory64(uint64_t end_offset,
                                            const Directory& old) const;
  absl::StatusOr<CentralHeader> NextHeader(Fields* directory) const;
  absl::Status ReadExtras(std::string_view extras, CentralHeader* header) const;
  absl::Status CheckName(std::string_view name) const;
  absl::StatusOr<uint64_t> ContentOffset(const CentralHeader& header) const;
  absl::Status CheckDisjoint(std::vector<Extent> extents,
                             const Directory& directory) const;

  const std::string_view path_;
  const std::string_view file_;
};

absl::StatusOr<Directory> ZipIndexer::FindDirectory() const {
  if (file_.size() < kEndBytes) {
    return Refuse(absl::StrCat("not a ZIP archive: ", file_.size(),
                               " bytes, expected at least ", kEndBytes));
  }
  // torch writes no archive comment, so the end record is the last thing in the
  // file. Insisting on it leaves one reading of the file for all readers.
  const uint64_t end_offset = file_.size() - kEndBytes;
  Fields end(file_.substr(end_offset));
  if (end.U32() != kEndSignature) {
    return Refuse(
        "not a ZIP archive, or cut short: no end-of-directory record at its "
        "end");
  }
  const uint16_t disk = end.U16();
  const uint16_t directory_disk = end.U16();
  const uint16_t members_here = end.U16();
  Directory old;
  old.members = end.U16();
  old.bytes = end.U32();
  old.offset = end.U32();
  const uint16_t comment_bytes = end.U16();
  if (comment_bytes != 0) return Refuse("archive comment is cut short");

  const bool has_locator =
      end_offset >= kEnd64LocatorBytes &&
      SignatureAt(end_offset - kEnd64LocatorBytes) == kEnd64LocatorSignature;
  Directory found = old;
  uint64_t directory_end = end_offset;
  if (has_locator) {
    if (!Agrees(disk, kIn64Bit16, 0) ||
        !Agrees(directory_disk, kIn64Bit16, 0)) {
      return Refuse("archive spans several disks");
    }
    ASSIGN_OR_RETURN(found, FindDirectory64(end_offset, old));
    directory_end = end_offset - kEnd64LocatorBytes - kEnd64Bytes;
  } else if (disk != 0 || directory_disk != 0 || members_here != old.members) {
    return Refuse("archive spans several disks");
  }
  if (!Holds(found.offset, found.bytes) ||
      found.offset + found.bytes != directory_end) {
    return Refuse(absl::StrCat("central directory at ", found.offset, " with ",
                               found.bytes, " bytes does not end at ",
                               directory_end, " where its end record starts"));
  }
  return found;
}

absl::StatusOr<Directory> ZipIndexer::FindDirectory64(
    uint64_t end_offset, const Directory& old) const {
  const uint64_t locator_offset = end_offset - kEnd64LocatorBytes;
  if (locator_offset < kEnd64Bytes) {
    return Refuse("ZIP64 locator without an end-of-directory record");
  }
  const uint64_t end64_offset = locator_offset - kEnd64Bytes;
  Fields locator(file_.substr(locator_offset, kEnd64LocatorBytes));
  locator.U32();  // signature
  const uint32_t record_disk = locator.U32();
  const uint64_t record_offset = locator.U64();
  const uint32_t disks = locator.U32();
  if (record_disk != 0 || disks > 1) {
    return Refuse("archive spans several disks");
  }
  if (record_offset != end64_offset ||
      SignatureAt(end64_offset) != kEnd64Signature) {
    return Refuse(absl::StrCat("ZIP64 end-of-directory record said to be at ",
                               record_offset, ", expected at ", end64_offset));
  }
  Fields end64(file_.substr(end64_offset, kEnd64Bytes));
  end64.U32();  // signature
  const uint64_t rest_bytes = end64.U64();
  end64.U32();  // versions made by and needed
  const uint32_t disk = end64.U32();
  const uint32_t directory_disk = end64.U32();
  const uint64_t members_here = end64.U64();
  Directory found;
  found.members = end64.U64();
  found.bytes = end64.U64();
  found.offset = end64.U64();
  if (rest_bytes != kEnd64Bytes - 12) {
    return Refuse(absl::StrCat("ZIP64 end-of-directory record of ", rest_bytes,
                               " bytes, expected ", kEnd64Bytes - 12));
  }
  if (disk != 0 || directory_disk != 0 || members_here != found.members) {
    return Refuse("archive spans several disks");
  }
  if (!Agrees(old.members, kIn64Bit16, found.members) ||
      !Agrees(old.bytes, kIn64Bit32, found.bytes) ||
      !Agrees(old.offset, kIn64Bit32, found.offset)) {
    return Refuse("the two end-of-directory records contradict each other");
  }
  return found;
}

absl::Status ZipIndexer::ReadExtras(std::string_view extras,
                                    CentralHeader* header) const {
  bool seen_zip64 = false;
  Fields fields(extras);
  while (fields.left() > 0) {
    const uint16_t tag = fields.left() >= 4 ? fields.U16() : 0;
    const uint16_t bytes = fields.left() >= 2 ? fields.U16() : 0;
    if (bytes > fields.left() || (tag == 0 && bytes == 0)) {
      return Refuse(absl::StrCat("member ", Quoted(header->name),
                                 " has a malformed extra field"));
    }
    Fields extra(fields.Bytes(bytes));
    if (tag == kExtraUnicodePath) {
      return Refuse(absl::StrCat("member ", Quoted(header->name),
                                 " has a second name in an extra field"));
    }
    if (tag != kExtraZip64) continue;
    if (std::exchange(seen_zip64, true)) {
      return Refuse(absl::StrCat("member ", Quoted(header->name),
                                 " has two ZIP64 extra fields"));
    }
    for (uint64_t* field :
         {&header->bytes, &header->compressed_bytes, &header->local_header}) {
      if (*field != kIn64Bit32) continue;
      if (extra.left() < 8) {
        return Refuse(
            absl::StrCat("member ", Quoted(header->name),
                         " has a ZIP64 extra field that is too short"));
      }
      *field = extra.U64();
    }
  }
  return absl::OkStatus();
}

absl::Status ZipIndexer::CheckName(std::string_view name) const {
  std::string_view fault;
  if (name.empty()) {
    fault = "an empty name";
  } else if (name.front() == '/') {
    fault = "an absolute name";
  } else if (absl::StrContains(Absl(name), '\\')) {
    fault = "a backslash in its name";
  } else if (std::any_of(name.begin(), name.end(), absl::ascii_iscntrl)) {
    fault = "a control character in its name";
  } else {
    for (absl::string_view part : absl::StrSplit(Absl(name), '/')) {
      if (part == "..") fault = "\"..\" in its name";
    }
  }
  if (fault.empty()) return absl::OkStatus();
  return Refuse(absl::StrCat("member ", Quoted(name), " has ", Absl(fault)));
}

absl::StatusOr<CentralHeader> ZipIndexer::NextHeader(Fields* directory) const {
  if (directory->left() < kCentralHeaderBytes ||
      directory->U32() != kCentralHeaderSignature) {
    return Refuse("central directory is cut short or overwritten");
  }
  CentralHeader header;
  directory->U32();  // versions made by and needed
  header.flags = directory->U16();
  header.method = directory->U16();
  directory->U32();  // time and date
  header.crc32 = directory->U32();
  header.compressed_bytes = directory->U32();
  header.bytes = directory->U32();
  const uint16_t name_bytes = directory->U16();
  const uint16_t extra_bytes = directory->U16();
  const uint16_t comment_bytes = directory->U16();
  const uint16_t disk = directory->U16();
  directory->U16();  // internal attributes
  directory->U32();  // external attributes
  header.local_header = directory->U32();
  if (directory->left() < uint64_t{name_bytes} + extra_bytes + comment_bytes) {
    return Refuse("central directory is cut short or overwritten");
  }
  header.name = directory->Bytes(name_bytes);
  RETURN_IF_ERROR(CheckName(header.name));
  RETURN_IF_ERROR(ReadExtras(directory->Bytes(extra_bytes), &header));
  directory->Bytes(comment_bytes);
  if (disk != 0) return Refuse("archive spans several disks");
  if ((header.flags & kForbiddenFlags) != 0) {
    return Refuse(
        absl::StrCat("member ", Quoted(header.name), " is encrypted"));
  }
  if (header.method != 0 || header.compressed_bytes != header.bytes) {
    return Refuse(absl::StrCat("member ", Quoted(header.name),
                               " is compressed (method ", header.method, ", ",
                               header.compressed_bytes, " bytes for ",
                               header.bytes, "), expected stored"));
  }
  return header;
}

absl::StatusOr<uint64_t> ZipIndexer::ContentOffset(
    const CentralHeader& header) const {
  if (!Holds(header.local_header, kLocalHeaderBytes) ||
      SignatureAt(header.local_header) != kLocalHeaderSignature) {
    return Refuse(absl::StrCat("member ", Quoted(header.name),
                               " has no local header at ",
                               header.local_header));
  }
  Fields local(file_.substr(header.local_header, kLocalHeaderBytes));
  local.U32();  // signature
  local.U16();  // version needed
  const uint16_t flags = local.U16();
  const uint16_t method = local.U16();
  local.Bytes(16);  // time, date, checksum and sizes: the directory's count
  const uint16_t name_bytes = local.U16();
  const uint16_t extra_bytes = local.U16();
  const uint64_t name_offset = header.local_header + kLocalHeaderBytes;
  if (!Holds(name_offset, uint64_t{name_bytes} + extra_bytes) ||
      file_.substr(name_offset, name_bytes) != header.name ||
      method != header.method || (flags & kForbiddenFlags) != 0) {
    return Refuse(absl::StrCat("local header of member ", Quoted(header.name),
                               " contradicts the central directory"));
  }
  const uint64_t offset = name_offset + name_bytes + extra_bytes;
  if (!Holds(offset, header.bytes)) {
    return Refuse(absl::StrCat("member ", Quoted(header.name), " at ", offset,
                               " with ", header.bytes,
                               " bytes ends behind the file's ", file_.size()));
  }
  return offset;
}

absl::Status ZipIndexer::CheckDisjoint(std::vector<Extent> extents,
                                       const Directory& directory) const {
  extents.push_back({directory.offset, file_.size(), "(central directory)"});
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin < extents[i - 1].end) {
      return Refuse(absl::StrCat("member ", Quoted(extents[i - 1].name),
                                 " overlaps ", Quoted(extents[i].name)));
    }
  }
  return absl::OkStatus();
}

absl::Status ZipIndexer::Run(
    std::map<std::string, ZipArchive::Member, std::less<>>* out) {
  ASSIGN_OR_RETURN(const Directory directory, FindDirectory());
  if (directory.members > kMaxArchiveMembers) {
    return Refuse(absl::StrCat(directory.members, " members, expected at most ",
                               kMaxArchiveMembers));
  }
  Fields headers(file_.substr(directory.offset, directory.bytes));
  std::vector<Extent> extents;
  std::set<std::string> folded_names;
  for (uint64_t i = 0; i < directory.members; ++i) {
    ASSIGN_OR_RETURN(const CentralHeader header, NextHeader(&headers));
    // torch looks members up without regard to case.
    if (!folded_names.insert(absl::AsciiStrToLower(Absl(header.name))).second) {
      return Refuse(absl::StrCat("member ", Quoted(header.name),
                                 " appears twice (case is ignored)"));
    }
    ASSIGN_OR_RETURN(const uint64_t offset, ContentOffset(header));
    extents.push_back(
        {header.local_header, offset + header.bytes, header.name});
    (*out)[std::string(header.name)] = {offset, header.bytes, header.crc32};
  }
  if (headers.left() != 0) {
    return Refuse(absl::StrCat("central directory has ", headers.left(),
                               " bytes behind its last member"));
  }
  return CheckDisjoint(std::move(extents), directory);
}

absl::StatusOr<std::shared_ptr<const ZipArchive>> ZipArchive::Open(
    const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<const MappedFile> file,
                   MappedFile::Open(path));
  std::shared_ptr<ZipArchive> archive(new ZipArchive(path, std::move(file)));
  RETURN_IF_ERROR(archive->Index());
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

absl::Status ZipArchive::Index() {
  return ZipIndexer(path_, file_->bytes()).Run(&members_);
}

absl::StatusOr<std::string_view> ZipArchive::View(std::string_view name) const {
  const auto it = members_.find(name);
  if (it == members_.end()) {
    return absl::NotFoundError(
        absl::StrCat(path_, ": no member ", Quoted(name)));
  }
  return file_->bytes().substr(it->second.offset, it->second.size);
}

absl::StatusOr<std::string_view> ZipArchive::ReadChecked(
    std::string_view name, uint64_t max_bytes) const {
  ASSIGN_OR_RETURN(const std::string_view content, View(name));
  if (content.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": member ", Quoted(name), " has ", content.size(),
                     " bytes, expected at most ", max_bytes));
  }
  const uint32_t recorded = members_.find(name)->second.crc32;
  const auto actual = static_cast<uint32_t>(crc32_z(
      0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
  if (actual != recorded) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": member ", Quoted(name), " is damaged: CRC-32 is ",
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
