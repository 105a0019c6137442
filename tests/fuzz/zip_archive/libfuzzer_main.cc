#include "tests/fuzz/zip_archive/zip_archive_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stoker::FuzzZipArchive(data, size);
  return 0;
}
