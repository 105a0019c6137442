// Where a ZIP archive's central directory is, by the records at the file's end.
// Pure; private to this room.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "program/zip_bytes.h"

namespace stoker {

struct ZipExtent {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t members = 0;  // that it claims to have
};

// The directory lies within the file, right before the records.
// INVALID_ARGUMENT, with the path, for a file without them, with an archive
// comment, or with records that contradict each other.
absl::StatusOr<ZipExtent> FindZipDirectory(const ZipBytes& file);

}  // namespace stoker
