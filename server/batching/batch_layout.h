// How tasks' tensors are put together and cut apart.
//
// A plain value, constant for a version. It is not a model's declaration: no
// names, no bounds, nothing that a batch is not made by.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/dim_expr.h"
#include "tensor/tensor.h"

namespace stoker {

struct BatchLayout {
  struct Input {
    DataType dtype;
    std::vector<DimExpr> dims;  // none is unknown
    double pad_value = 0;  // fills what padding adds, but for rows of the batch
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
  // Per dimension of the model: tasks of different sizes there may share a
  // batch. The batch dimension's own entry is not read; its sizes are summed.
  std::vector<bool> paddable;
};

}  // namespace stoker
