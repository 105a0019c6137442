// Variables of the environment that are for this process alone: whoever takes
// one keeps it from the children.
//
// At the start, before there are threads.
#pragma once

#include <stdlib.h>

#include <string>

namespace stoker {

// Empty where it isn't set.
inline std::string TakeVariable(const char* name) {
  const char* const value = getenv(name);
  std::string taken = value == nullptr ? "" : value;
  unsetenv(name);
  return taken;
}

}  // namespace stoker
