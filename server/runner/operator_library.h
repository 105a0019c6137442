// Loads libraries of operators beyond torch's own into this process.
#pragma once

#include "absl/status/status.h"
#include "program/operator_libraries.h"

namespace stoker {

// Opens the library, which registers its operators with torch, for as long as
// the process lives. FAILED_PRECONDITION when it can't be opened, or when torch
// knows no operator of its name afterwards. Call before a program is opened.
absl::Status LoadOperatorLibrary(const OperatorLibrary& library);

}  // namespace stoker
