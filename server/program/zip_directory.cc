#include "program/zip_directory.h"

#include <algorithm>
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
#include "program/zip_bytes.h"
#include "program/zip_end_record.h"
#include "program/zip_fields.h"

// Layout and field names follow PKWARE's APPNOTE.TXT 6.3.10. All numbers in the
// file are little-endian.
namespace stoker {
namespace {

constexpr uint32_t kLocalHeaderSignature = 0x04034b50;
constexpr uint32_t kCentralHeaderSignature = 0x02014b50;

constexpr uint64_t kLocalHeaderBytes = 30;
constexpr uint64_t kCentralHeaderBytes = 46;

constexpr uint16_t kFlagEncrypted = 1 << 0;
constexpr uint16_t kFlagStrongEncryption = 1 << 6;
constexpr uint16_t kFlagMaskedHeaders = 1 << 13;
constexpr uint16_t kForbiddenFlags =
    kFlagEncrypted | kFlagStrongEncryption | kFlagMaskedHeaders;

constexpr uint16_t kExtraZip64 = 0x0001;
constexpr uint16_t kExtraUnicodePath = 0x7075;

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

class DirectoryReader {
 public:
  explicit DirectoryReader(const ZipBytes& file) : file_(file) {}

  absl::StatusOr<ZipEntries> Read() const;

 private:
  absl::Status RefuseMember(std::string_view name, std::string_view why) const {
    return file_.Refuse(
        absl::StrCat("member ", QuotedMember(name), " ", Absl(why)));
  }
  absl::StatusOr<CentralHeader> NextHeader(ZipFields* directory) const;
  absl::Status ReadExtras(std::string_view extras, CentralHeader* header) const;
  absl::Status CheckName(std::string_view name) const;
  absl::StatusOr<uint64_t> ContentOffset(const CentralHeader& header) const;
  absl::Status CheckDisjoint(std::vector<Extent> extents,
                             const ZipExtent& directory) const;

  const ZipBytes file_;
};

absl::Status DirectoryReader::ReadExtras(std::string_view extras,
                                         CentralHeader* header) const {
  bool seen_zip64 = false;
  ZipFields fields(extras);
  while (fields.left() > 0) {
    const uint16_t tag = fields.left() >= 4 ? fields.U16() : 0;
    const uint16_t bytes = fields.left() >= 2 ? fields.U16() : 0;
    if (bytes > fields.left() || (tag == 0 && bytes == 0)) {
      return RefuseMember(header->name, "has a malformed extra field");
    }
    ZipFields extra(fields.Bytes(bytes));
    if (tag == kExtraUnicodePath) {
      return RefuseMember(header->name, "has a second name in an extra field");
    }
    if (tag != kExtraZip64) continue;
    if (std::exchange(seen_zip64, true)) {
      return RefuseMember(header->name, "has two ZIP64 extra fields");
    }
    for (uint64_t* field :
         {&header->bytes, &header->compressed_bytes, &header->local_header}) {
      if (*field != kIn64Bit32) continue;
      if (extra.left() < 8) {
        return RefuseMember(header->name,
                            "has a ZIP64 extra field that is too short");
      }
      *field = extra.U64();
    }
  }
  return absl::OkStatus();
}

absl::Status DirectoryReader::CheckName(std::string_view name) const {
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
  return RefuseMember(name, absl::StrCat("has ", Absl(fault)));
}

absl::StatusOr<CentralHeader> DirectoryReader::NextHeader(
    ZipFields* directory) const {
  if (directory->left() < kCentralHeaderBytes ||
      directory->U32() != kCentralHeaderSignature) {
    return file_.Refuse("central directory is cut short or overwritten");
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
    return file_.Refuse("central directory is cut short or overwritten");
  }
  header.name = directory->Bytes(name_bytes);
  RETURN_IF_ERROR(CheckName(header.name));
  RETURN_IF_ERROR(ReadExtras(directory->Bytes(extra_bytes), &header));
  directory->Bytes(comment_bytes);
  if (disk != 0) return file_.Refuse("archive spans several disks");
  if ((header.flags & kForbiddenFlags) != 0) {
    return RefuseMember(header.name, "is encrypted");
  }
  if (header.method != 0 || header.compressed_bytes != header.bytes) {
    return RefuseMember(
        header.name, absl::StrCat("is compressed (method ", header.method, ", ",
                                  header.compressed_bytes, " bytes for ",
                                  header.bytes, "), expected stored"));
  }
  return header;
}

absl::StatusOr<uint64_t> DirectoryReader::ContentOffset(
    const CentralHeader& header) const {
  if (!file_.Holds(header.local_header, kLocalHeaderBytes) ||
      file_.SignatureAt(header.local_header) != kLocalHeaderSignature) {
    return RefuseMember(header.name, absl::StrCat("has no local header at ",
                                                  header.local_header));
  }
  ZipFields local(file_.At(header.local_header, kLocalHeaderBytes));
  local.U32();  // signature
  local.U16();  // version needed
  const uint16_t flags = local.U16();
  const uint16_t method = local.U16();
  local.Bytes(16);  // time, date, checksum and sizes: the directory's count
  const uint16_t name_bytes = local.U16();
  const uint16_t extra_bytes = local.U16();
  const uint64_t name_offset = header.local_header + kLocalHeaderBytes;
  if (!file_.Holds(name_offset, uint64_t{name_bytes} + extra_bytes) ||
      file_.At(name_offset, name_bytes) != header.name ||
      method != header.method || (flags & kForbiddenFlags) != 0) {
    return file_.Refuse(absl::StrCat("local header of member ",
                                     QuotedMember(header.name),
                                     " contradicts the central directory"));
  }
  const uint64_t offset = name_offset + name_bytes + extra_bytes;
  if (!file_.Holds(offset, header.bytes)) {
    return RefuseMember(
        header.name,
        absl::StrCat("at ", offset, " with ", header.bytes,
                     " bytes ends behind the file's ", file_.size()));
  }
  return offset;
}

absl::Status DirectoryReader::CheckDisjoint(std::vector<Extent> extents,
                                            const ZipExtent& directory) const {
  extents.push_back({directory.offset, file_.size(), "(central directory)"});
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin < extents[i - 1].end) {
      return RefuseMember(
          extents[i - 1].name,
          absl::StrCat("overlaps ", QuotedMember(extents[i].name)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ZipEntries> DirectoryReader::Read() const {
  ASSIGN_OR_RETURN(const ZipExtent directory, FindZipDirectory(file_));
  if (directory.members > kMaxArchiveMembers) {
    return file_.Refuse(absl::StrCat(
        directory.members, " members, expected at most ", kMaxArchiveMembers));
  }
  ZipFields headers(file_.At(directory.offset, directory.bytes));
  std::vector<Extent> extents;
  std::set<std::string> folded_names;
  ZipEntries entries;
  for (uint64_t i = 0; i < directory.members; ++i) {
    ASSIGN_OR_RETURN(const CentralHeader header, NextHeader(&headers));
    // torch looks members up without regard to case.
    if (!folded_names.insert(absl::AsciiStrToLower(Absl(header.name))).second) {
      return RefuseMember(header.name, "appears twice (case is ignored)");
    }
    ASSIGN_OR_RETURN(const uint64_t offset, ContentOffset(header));
    extents.push_back(
        {header.local_header, offset + header.bytes, header.name});
    entries[std::string(header.name)] = {offset, header.bytes, header.crc32};
  }
  if (headers.left() != 0) {
    return file_.Refuse(absl::StrCat("central directory has ", headers.left(),
                                     " bytes behind its last member"));
  }
  RETURN_IF_ERROR(CheckDisjoint(std::move(extents), directory));
  return entries;
}

}  // namespace

absl::StatusOr<ZipEntries> ReadZipDirectory(std::string_view path,
                                            std::string_view file) {
  return DirectoryReader(ZipBytes(path, file)).Read();
}

std::string QuotedMember(std::string_view name) {
  constexpr size_t kShown = 80;
  return absl::StrCat("\"", absl::CHexEscape(Absl(name.substr(0, kShown))),
                      name.size() > kShown ? "..." : "", "\"");
}

}  // namespace stoker
