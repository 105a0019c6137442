// What a ZIP archive's file holds, for those who read its records: what lies
// where is asked before it is read. Pure; private to this room.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "program/zip_fields.h"

namespace stoker {

// Views of the path and of the file's whole content, which outlive it.
class ZipBytes {
 public:
  ZipBytes(std::string_view path, std::string_view content)
      : path_(path), content_(content) {}

  // INVALID_ARGUMENT, with the path.
  absl::Status Refuse(std::string_view why) const {
    return absl::InvalidArgumentError(
        absl::StrCat(Absl(path_), ": ", Absl(why)));
  }
  // In an order that cannot overflow, whatever the file says.
  bool Holds(uint64_t offset, uint64_t bytes) const {
    return offset <= size() && bytes <= size() - offset;
  }
  // The offset, at most the file's size, was checked by the caller; fewer bytes
  // where the file ends.
  std::string_view At(uint64_t offset, uint64_t bytes) const {
    return content_.substr(offset, bytes);
  }
  uint32_t SignatureAt(uint64_t offset) const {
    return ZipFields(At(offset, 4)).U32();
  }
  uint64_t size() const { return content_.size(); }

 private:
  const std::string_view path_;
  const std::string_view content_;
};

}  // namespace stoker
