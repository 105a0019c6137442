// Files that decide who may do what.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace stoker {

// PERMISSION_DENIED: everybody may write it; INVALID_ARGUMENT: it is larger;
// else the system's code.
absl::StatusOr<std::string> ReadTrusted(const std::string& path,
                                        size_t max_bytes);

}  // namespace stoker
