// The classification extension: the largest elements of an output with their
// indices and labels, in place of the whole of it.
//
// Thread-safe: pure functions.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/tensor.h"

namespace stoker {

struct ModelSpec;

// OK when the elements of output `index` can be put in order. INVALID_ARGUMENT
// in Triton's words for datatypes that it refuses too.
absl::Status CheckClassified(const ModelSpec& spec, int index);

// BYTES with the `count` largest elements of each row of the output, or of the
// output as a whole where the model has no batch, at most as many as there are:
// "value:index" or "value:index:label", each behind its length of four bytes,
// as the protocol has it. Equal elements are in the order of their indices, NaN
// comes last. INVALID_ARGUMENT when that would be more than a message holds.
absl::StatusOr<Tensor> Classify(const ModelSpec& spec, int index,
                                const Tensor& output, size_t count);

}  // namespace stoker
