// A program's outputs in the form in which clients have them: the largest
// elements where they asked for these, rows of bytes as BYTES, and shapes that
// the configuration names.
//
// Thread-safe: pure functions.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensor/tensor.h"

namespace stoker {

struct ModelSpec;

// Changes those of `outputs`, which are all of the model's, that `indices`
// selects. `classes` as in DecodedRequest. Elements are not copied for another
// shape. INVALID_ARGUMENT: what Classify says; or the run gave an output that
// has no such shape, which sizes of the request that the configuration doesn't
// provide for can make it.
absl::Status ToClients(const ModelSpec& spec, absl::Span<const int> indices,
                       absl::Span<const size_t> classes,
                       absl::Span<Tensor> outputs);

}  // namespace stoker
