// What a program's graph may ask of the process that runs it. nativert calls
// any operator that torch has registered, some of which write files, and
// believes the sizes that the graph gives for its weights, which compiled code
// has built in. Private to this room.
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "program/json_cursor.h"
#include "program/stored_tensor.h"

namespace stoker {

// Both: INVALID_ARGUMENT, with path and place.

// The program is of the schema that is known, calls operators that compute on
// tensors and no others, and holds no custom object. Returns the names of the
// operator libraries (program/operator_libraries.h) that it needs.
absl::StatusOr<std::set<std::string>> CheckGraph(const JsonCursor& program);

// The archive holds every parameter, buffer and constant that the program
// takes, of the type, size and strides that the graph gives it. `program` has
// passed CheckGraph.
absl::Status CheckWeights(const JsonCursor& program,
                          const StoredTensors& tensors);

}  // namespace stoker
