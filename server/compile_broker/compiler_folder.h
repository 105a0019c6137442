// Where the Python package `compiler` lies.
#pragma once

#include <string>

namespace stoker {

// `share/stoker` beside the running binary's prefix when it holds the package,
// else the tree that the binary was built from.
std::string DefaultCompilerFolder();

}  // namespace stoker
