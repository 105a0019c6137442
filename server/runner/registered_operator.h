// The operators that torch knows in this process, by the names that graphs give
// them. Private to this room.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

#include "absl/strings/string_view.h"

namespace stoker {

// "torch.ops.aten.add_.Tensor" → the operator; nullopt for any other text, and
// for what is not registered.
std::optional<c10::OperatorHandle> FindOperator(absl::string_view target);

}  // namespace stoker
