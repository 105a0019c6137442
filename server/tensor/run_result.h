// What one run of a batch gives back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace stoker {

// A row whose values eager would have refused (an index out of range, an
// integer division by zero). Its outputs are meaningless; the other rows' are
// right.
struct RowFault {
  int64_t row = -1;     // index in the batch; -1: every row
  std::string message;  // operator, input where known, what was expected
};

struct RunResult {
  std::vector<Tensor> outputs;  // in the model's order; each owns its memory
  std::vector<RowFault> faults;
};

}  // namespace stoker
