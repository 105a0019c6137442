// What a request says of its outputs: which of the model's it wants, in which
// order, and how many classes of each.
//
// Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "rpc/request_reader.h"

namespace stoker {

struct ModelSpec;

// Of a model, in the order of the answer.
using OutputIndices = absl::InlinedVector<int, 4>;

// Those that are named, or all. INVALID_ARGUMENT: the model has none of that
// name, or it is named twice.
absl::StatusOr<OutputIndices> SelectOutputs(const RequestView& request,
                                            const ModelSpec& spec);

// How many of the largest elements each of the selected outputs is to be
// answered by; 0: by all. Empty: all are. INVALID_ARGUMENT: a wrong value, or
// an output that has no largest elements.
absl::StatusOr<std::vector<size_t>> SelectClasses(const RequestView& request,
                                                  const ModelSpec& spec,
                                                  const OutputIndices& outputs);

}  // namespace stoker
