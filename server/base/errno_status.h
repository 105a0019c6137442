// Turns an errno into a Status with the text of strerror: ENOENT is NOT_FOUND;
// EACCES, EPERM and EROFS are PERMISSION_DENIED; ENOSPC and EDQUOT are
// RESOURCE_EXHAUSTED; EEXIST and ENOTEMPTY are ALREADY_EXISTS; all others are
// INTERNAL.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace stoker {

// ErrnoStatus(ENOENT, "open /a/b") says "open /a/b: No such file or directory".
// `error` is not 0.
absl::Status ErrnoStatus(int error, std::string_view what);

}  // namespace stoker
