// Comparing what must not be guessed piece by piece.
//
// Thread-safe.
#pragma once

#include <string_view>

namespace stoker {

// Takes as long wherever the two differ; what can be told from the time is
// whether their lengths do.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace stoker
