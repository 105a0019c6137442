// The property that tests/fuzz/zip_archive holds ZipArchive to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

// Aborts with the broken property. Returns whether the bytes were an archive.
bool FuzzZipArchive(const uint8_t* data, size_t size);

}  // namespace stoker
