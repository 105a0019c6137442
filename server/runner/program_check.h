// What a program's graph may ask of the process that runs it. nativert calls
// any operator that torch has registered, some of which write files, and
// believes the sizes that the graph gives for its weights, which compiled code
// has built in. Private to this room.
#pragma once

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"
#include "runner/stored_tensor.h"

namespace stoker {

// INVALID_ARGUMENT when the graph calls an operator that isn't arithmetic on
// tensors, or expects of a parameter, buffer or constant another type, size or
// stride than `tensors` has.
absl::Status CheckProgram(const nlohmann::json& program,
                          const StoredTensors& tensors);

}  // namespace stoker
