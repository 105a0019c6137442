// Which tasks of a batch the rows with refused values belong to. Pure
// functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "batching/batch.h"
#include "tensor/run_result.h"

namespace stoker {

struct TaskFaults {
  std::vector<absl::Status>
      per_task;     // OK, or INVALID_ARGUMENT with the first fault
  size_t rows = 0;  // distinct faulty rows; one that is not known counts once
};

// Faults in rows that padding added are dropped: they repeat a row of a task.
// With one task, every fault without a row is its own; with several, such a
// fault is the error INVALID_ARGUMENT, for it can't be told whose it is.
// `has_rows`: rows of faults are rows of the tasks (there is a batch
// dimension).
absl::StatusOr<TaskFaults> AssignFaults(const Batch& batch, bool has_rows,
                                        absl::Span<const RowFault> faults);

}  // namespace stoker
