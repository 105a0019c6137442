#include "tests/fuzz/http/http_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stoker::FuzzHttp(data, size);
  return 0;
}
