// Loads libraries of operators beyond torch's own into this process.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "program/operator_libraries.h"

namespace stoker {

// Opens the library, which registers its operators with torch, for as long as
// the process lives. FAILED_PRECONDITION when it can't be opened, or when torch
// knows no operator of its name afterwards. Call before a program is opened.
absl::Status LoadOperatorLibrary(const OperatorLibrary& library);

// Those that are named as NAME=FILE, after AllowOperatorLibraries. Errors of
// both.
absl::StatusOr<std::vector<OperatorLibrary>> LoadOperatorLibraries(
    const std::vector<std::string>& texts);

}  // namespace stoker
