// torch's exceptions as statuses. Private to this room.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stoker {

// Call in a catch block, of a run or a load of a program in its eager form.
// Dtypes and shapes were checked before, so what torch refuses there are values
// (or a program that is broken): INVALID_ARGUMENT. Memory: RESOURCE_EXHAUSTED.
// What can't come from values: INTERNAL. The message is `what`, then the line
// of torch's text that says what happened and the operator where it is known.
absl::Status EagerError(absl::string_view what);

// Call in a catch block around compiled code, whose exceptions carry no text
// (torch writes it to stderr): RESOURCE_EXHAUSTED for memory, INTERNAL
// otherwise.
absl::Status CompiledError(absl::string_view what);

// DATA_LOSS: somebody has written to the program's file at `path`, whose
// weights a run has read.
absl::Status WrittenToError(absl::string_view path);

// torch takes a stack trace for each exception, which makes a refused request
// cost 6 ms. Switches that off for the process.
void KeepErrorsCheap();

}  // namespace stoker
