#include "batching/row_faults.h"

#include <cstdint>
#include <set>

#include "absl/strings/str_cat.h"

namespace stoker {
namespace {

absl::Status Refused(const InferTask& task, int64_t row_of_task,
                     const std::string& message) {
  if (task.rows <= 1 || row_of_task < 0) {
    return absl::InvalidArgumentError(message);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(message, " (row ", row_of_task, " of the request)"));
}

}  // namespace

absl::StatusOr<TaskFaults> AssignFaults(const Batch& batch, bool has_rows,
                                        absl::Span<const RowFault> faults) {
  TaskFaults result;
  result.per_task.resize(batch.tasks.size());
  std::set<int64_t> rows;
  for (const RowFault& fault : faults) {
    size_t task = 0;
    int64_t row = has_rows && fault.row >= 0 ? fault.row : -1;
    if (row >= batch.rows) continue;
    if (row < 0 && batch.tasks.size() > 1) {
      return absl::InvalidArgumentError(fault.message);
    }
    rows.insert(row);
    while (row >= 0 && row >= batch.tasks[task]->rows) {
      row -= batch.tasks[task++]->rows;
    }
    if (result.per_task[task].ok()) {
      result.per_task[task] = Refused(*batch.tasks[task], row, fault.message);
    }
  }
  result.rows = rows.size();
  return result;
}

}  // namespace stoker
