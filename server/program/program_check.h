// What a program's graph may ask of the process that runs it. nativert calls
// any operator that torch has registered, some of which write files, and
// believes the sizes that the graph gives for its weights, which compiled code
// has built in. Private to this room.
#pragma once

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "program/json_cursor.h"
#include "program/stored_tensor.h"

namespace stoker {

struct CalledOperators {
  // Names of the operator libraries (program/operator_libraries.h) they are in.
  std::set<std::string> libraries;
  // Those of which it isn't known that no values lead them astray
  // (program/known_operators.h), each with " at net.py:12" where that is known.
  std::map<std::string, std::string> unlisted;
};

// Both: INVALID_ARGUMENT, with path and place.

// The program is of the schema that is known, calls operators that compute on
// tensors and no others, and holds no custom object.
absl::StatusOr<CalledOperators> CheckGraph(const JsonCursor& program);

// The archive holds every parameter, buffer and constant that the program
// takes, of the type, size and strides that the graph gives it. `program` has
// passed CheckGraph.
absl::Status CheckWeights(const JsonCursor& program,
                          const StoredTensors& tensors);

}  // namespace stoker
