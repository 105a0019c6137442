// Where the members of a ZIP archive are, by its central directory, which is
// held against the local headers, the file's end and itself. What is refused is
// ZipArchive's to say. Pure; private to this room.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace stoker {

struct ZipEntry {
  uint64_t offset = 0;  // of the content, in the file
  uint64_t size = 0;    // bytes
  uint32_t crc32 = 0;   // as recorded
};
// By full name.
using ZipEntries = std::map<std::string, ZipEntry, std::less<>>;

// `file` is the whole content of the file at `path`, which errors begin with.
absl::StatusOr<ZipEntries> ReadZipDirectory(std::string_view path,
                                            std::string_view file);

// A member's name, for an error: in quotes, escaped, not too long.
std::string QuotedMember(std::string_view name);

}  // namespace stoker
