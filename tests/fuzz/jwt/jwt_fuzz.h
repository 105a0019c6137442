// Fuzz target: a key set, and after an empty line a token that is verified with
// it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

enum class FuzzedJwt {
  kNoKeys,
  kNoToken,  // nobody has signed it
  kRefused,  // signed, and for something else
  kGood,
};

// Ends the process when something holds no more: what is refused has another
// code, or its error shows the token.
FuzzedJwt FuzzJwt(const uint8_t* data, size_t size);

}  // namespace stoker
