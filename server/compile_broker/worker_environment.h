// What a compiler's process may know of the environment of the one that starts
// it. All else is kept from it: torch, g++ and ld take settings from variables
// that no key knows (TORCHINDUCTOR_*, CXX, CFLAGS, CPLUS_INCLUDE_PATH, ...),
// and an artifact would depend on the shell that its daemon was started from.
#pragma once

#include <string>
#include <vector>

namespace stoker {

// Names of variables; constant.
const std::vector<std::string>& WorkerVariables();

}  // namespace stoker
