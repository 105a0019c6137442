// Cuts the outputs of a batch into the answers of its tasks. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "batching/batch_layout.h"
#include "tensor/tensor.h"

namespace stoker {

// INTERNAL unless there is one output for each of the layout's, with its dtype,
// the shape it has at `sizes` (an unknown size may be anything) and as many
// bytes as that takes.
absl::Status CheckOutputs(const BatchLayout& layout,
                          absl::Span<const int64_t> sizes,
                          absl::Span<const Tensor> outputs);

// The part of checked outputs that belongs to the task of `sizes` whose rows
// begin at `first_row`; of a ragged batch, whose place in it is `task`. What
// needs no copy, because it is contiguous, shares the output's memory, unless
// that is more than twice as much; the rest is copied once. INTERNAL when an
// output is smaller along an axis than the task's own sizes make it (sizes that
// shrink as a dimension grows).
absl::StatusOr<std::vector<Tensor>> CutOutputs(const BatchLayout& layout,
                                               absl::Span<const Tensor> outputs,
                                               absl::Span<const int64_t> sizes,
                                               int64_t first_row,
                                               int64_t task = 0);

}  // namespace stoker
