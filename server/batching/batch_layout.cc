#include "batching/batch_layout.h"

#include <algorithm>

namespace stoker {

bool BatchLayout::is_ragged() const {
  return std::any_of(inputs.begin(), inputs.end(), [](const Input& input) {
    return input.batch_input.has_value();
  });
}

bool BatchLayout::HasTasks(const std::vector<DimExpr>& dims) const {
  if (dims.empty()) return false;
  return std::any_of(inputs.begin(), inputs.end(), [&](const Input& input) {
    if (!input.batch_input.has_value() ||
        input.batch_input->kind == BatchInput::Kind::kMaxElementCountAsShape) {
      return false;
    }
    const auto affine = input.dims[0].AsAffine();
    return affine.has_value() && dims[0].DependsOn(affine->dimension);
  });
}

}  // namespace stoker
