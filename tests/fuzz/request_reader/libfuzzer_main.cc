#include "tests/fuzz/request_reader/request_reader_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stoker::FuzzRequestReader(data, size);
  return 0;
}
