// How tasks' tensors are put together and cut apart.
//
// A plain value, constant for a version. It is not a model's declaration: no
// names, no bounds, nothing that a batch is not made by.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "tensor/batch_input.h"
#include "tensor/dim_expr.h"
#include "tensor/tensor.h"

namespace stoker {

struct BatchLayout {
  struct Input {
    DataType dtype;
    std::vector<DimExpr> dims;  // none is unknown
    double pad_value = 0;  // fills what padding adds, but for rows of the batch
    // Of one axis, and made of the batch's tasks: whatever a task has there is
    // not read.
    std::optional<BatchInput> batch_input = std::nullopt;
  };
  struct Output {
    DataType dtype;
    // With an unknown one anywhere, tasks run alone and in exactly their own
    // size: what padding did to such an output can't be undone.
    std::vector<DimExpr> dims;
  };
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::optional<int> batch_dimension;  // axis 0 of all inputs and outputs
  int64_t max_batch_rows = 1;          // tasks are put together up to this
  // The same of their number. Where inputs are made of the batch's tasks, they
  // have elements for so many in each bucket, and rows are elements.
  int64_t max_batch_tasks = std::numeric_limits<int64_t>::max();
  // Per dimension of the model: tasks of different sizes there may share a
  // batch. The batch dimension's own entry is not read; its sizes are summed.
  std::vector<bool> paddable;

  // Whether any input is made of the batch's tasks.
  bool is_ragged() const;
  // Whether the tensor's axis 0 is a task of a ragged batch, rather than a row.
  bool HasTasks(const std::vector<DimExpr>& dims) const;
};

}  // namespace stoker
