// Libraries of operators beyond torch's own that programs may call.
//
// Which there are is said once, when the process starts, and holds for all of
// it, as torch's own list of operators does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace stoker {

struct OperatorLibrary {
  // Of its operators: "torchvision" of torch.ops.torchvision.nms.
  std::string name;
  std::string path;    // without links
  std::string digest;  // SHA-256 of the file
};

// Programs may call operators of these libraries from now on, each given as
// "NAME=FILE", and of no others; returns them. A file is native code that will
// run in this process, so nobody but its owner may be able to write it or its
// folder, and that is root or this user. INVALID_ARGUMENT for another form, a
// name twice, or one whose operators are the server's own; PERMISSION_DENIED;
// NOT_FOUND or the errno's code when the file can't be read. Call before the
// first program is read, while no other thread reads any.
absl::StatusOr<std::vector<OperatorLibrary>> AllowOperatorLibraries(
    const std::vector<std::string>& texts);

// Those that are allowed, as one list that stays where it is.
const std::vector<OperatorLibrary>& AllowedOperatorLibraries();

// For a shared library that has this room in it once more, and so a list of its
// own: from now on `allowed`, the process's, is the one that it goes by.
// Outlives it.
void ShareOperatorLibraries(const std::vector<OperatorLibrary>& allowed);

// Null when no library was said to have operators of this name. Thread-safe;
// valid until the next AllowOperatorLibraries.
const OperatorLibrary* FindOperatorLibrary(std::string_view name);

// Whether operators of this name are the server's own: torch's that compute on
// tensors, torchvision's and transformers'.
bool IsOwnLibrary(std::string_view name);

}  // namespace stoker
