#include "tests/fuzz/jwt/jwt_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stoker::FuzzJwt(data, size);
  return 0;
}
