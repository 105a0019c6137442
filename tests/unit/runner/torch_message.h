// What torch says when it refuses something.
#pragma once

#include <c10/util/Exception.h>

#include <string>

namespace stoker {

// The message of what `run` throws.
template <typename Run>
std::string ErrorOf(const Run& run) {
  try {
    run();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

}  // namespace stoker
