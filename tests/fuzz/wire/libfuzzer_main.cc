#include "tests/fuzz/wire/wire_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stoker::FuzzWire(data, size);
  return 0;
}
