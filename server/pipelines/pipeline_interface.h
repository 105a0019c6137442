// What a pipeline takes and gives: follows from what its steps' models declare,
// which are held against each other.
//
// Thread-safe: a pure function.
#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "repository/model_spec.h"

namespace stoker {

// `pipeline` with inputs, outputs, dimensions, batch and priority levels.
// `models`: what each step's model declares. INVALID_ARGUMENT, with step and
// tensor: its model has no such tensor, or a step doesn't give all inputs, or
// what one step makes can't be what another takes, or what the author says of
// an input or output isn't so.
absl::StatusOr<ModelSpec> WithInterface(
    const ModelSpec& pipeline, absl::Span<const ModelSpec* const> models);

}  // namespace stoker
