// What an exported program's model.json says about its inputs and outputs.
#pragma once

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "program/json_cursor.h"
#include "repository/model_spec.h"

namespace stoker {

// Fills inputs, outputs, dimensions (with default names) and batch_dimension of
// `spec`; returns the names of the weights and constants that the program
// takes. INVALID_ARGUMENT for what can't be served: see ReadProgram.
absl::StatusOr<std::set<std::string>> ReadSignature(const JsonCursor& program,
                                                    ModelSpec& spec);

}  // namespace stoker
