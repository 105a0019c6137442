#include "program/zip_end_record.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "program/zip_fields.h"

namespace stoker {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kEnd64LocatorSignature = 0x07064b50;

constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kEnd64LocatorBytes = 20;

// Fits a field of the old record to the one of the ZIP64 record: equal, or
// marked as being there. Readers differ in which of two contradicting numbers
// they believe.
bool Agrees(uint64_t old_field, uint64_t marker, uint64_t field) {
  return old_field == field || old_field == marker;
}

absl::StatusOr<ZipExtent> FindZip64Directory(const ZipBytes& file,
                                             uint64_t end_offset,
                                             const ZipExtent& old) {
  const uint64_t locator_offset = end_offset - kEnd64LocatorBytes;
  if (locator_offset < kEnd64Bytes) {
    return file.Refuse("ZIP64 locator without an end-of-directory record");
  }
  const uint64_t end64_offset = locator_offset - kEnd64Bytes;
  ZipFields locator(file.At(locator_offset, kEnd64LocatorBytes));
  locator.U32();  // signature
  const uint32_t record_disk = locator.U32();
  const uint64_t record_offset = locator.U64();
  const uint32_t disks = locator.U32();
  if (record_disk != 0 || disks > 1) {
    return file.Refuse("archive spans several disks");
  }
  if (record_offset != end64_offset ||
      file.SignatureAt(end64_offset) != kEnd64Signature) {
    return file.Refuse(
        absl::StrCat("ZIP64 end-of-directory record said to be at ",
                     record_offset, ", expected at ", end64_offset));
  }
  ZipFields end64(file.At(end64_offset, kEnd64Bytes));
  end64.U32();  // signature
  const uint64_t rest_bytes = end64.U64();
  end64.U32();  // versions made by and needed
  const uint32_t disk = end64.U32();
  const uint32_t directory_disk = end64.U32();
  const uint64_t members_here = end64.U64();
  ZipExtent found;
  found.members = end64.U64();
  found.bytes = end64.U64();
  found.offset = end64.U64();
  if (rest_bytes != kEnd64Bytes - 12) {
    return file.Refuse(absl::StrCat("ZIP64 end-of-directory record of ",
                                    rest_bytes, " bytes, expected ",
                                    kEnd64Bytes - 12));
  }
  if (disk != 0 || directory_disk != 0 || members_here != found.members) {
    return file.Refuse("archive spans several disks");
  }
  if (!Agrees(old.members, kIn64Bit16, found.members) ||
      !Agrees(old.bytes, kIn64Bit32, found.bytes) ||
      !Agrees(old.offset, kIn64Bit32, found.offset)) {
    return file.Refuse(
        "the two end-of-directory records contradict each other");
  }
  return found;
}

}  // namespace

absl::StatusOr<ZipExtent> FindZipDirectory(const ZipBytes& file) {
  if (file.size() < kEndBytes) {
    return file.Refuse(absl::StrCat("not a ZIP archive: ", file.size(),
                                    " bytes, expected at least ", kEndBytes));
  }
  // torch writes no archive comment, so the end record is the last thing in the
  // file. Insisting on it leaves one reading of the file for all readers.
  const uint64_t end_offset = file.size() - kEndBytes;
  ZipFields end(file.At(end_offset, kEndBytes));
  if (end.U32() != kEndSignature) {
    return file.Refuse(
        "not a ZIP archive, or cut short: no end-of-directory record at its "
        "end");
  }
  const uint16_t disk = end.U16();
  const uint16_t directory_disk = end.U16();
  const uint16_t members_here = end.U16();
  ZipExtent old;
  old.members = end.U16();
  old.bytes = end.U32();
  old.offset = end.U32();
  const uint16_t comment_bytes = end.U16();
  if (comment_bytes != 0) return file.Refuse("archive comment is cut short");

  const bool has_locator = end_offset >= kEnd64LocatorBytes &&
                           file.SignatureAt(end_offset - kEnd64LocatorBytes) ==
                               kEnd64LocatorSignature;
  ZipExtent found = old;
  uint64_t directory_end = end_offset;
  if (has_locator) {
    if (!Agrees(disk, kIn64Bit16, 0) ||
        !Agrees(directory_disk, kIn64Bit16, 0)) {
      return file.Refuse("archive spans several disks");
    }
    ASSIGN_OR_RETURN(found, FindZip64Directory(file, end_offset, old));
    directory_end = end_offset - kEnd64LocatorBytes - kEnd64Bytes;
  } else if (disk != 0 || directory_disk != 0 || members_here != old.members) {
    return file.Refuse("archive spans several disks");
  }
  if (!file.Holds(found.offset, found.bytes) ||
      found.offset + found.bytes != directory_end) {
    return file.Refuse(absl::StrCat("central directory at ", found.offset,
                                    " with ", found.bytes,
                                    " bytes does not end at ", directory_end,
                                    " where its end record starts"));
  }
  return found;
}

}  // namespace stoker
