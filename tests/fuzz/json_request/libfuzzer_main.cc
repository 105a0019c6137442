#include "tests/fuzz/json_request/json_request_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stoker::FuzzJsonRequest(data, size);
  return 0;
}
