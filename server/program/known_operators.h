// Operators of ATen of which it is known that no values lead them astray: they
// answer, or throw. Which they are is compiler/guards/known_operators.txt,
// which the compiler reads too. Private to this room.
#pragma once

#include <string_view>

#include "absl/types/span.h"

namespace stoker {

// Sorted; without overloads, and without the "_" of those that work in place.
extern const absl::Span<const std::string_view> kKnownOperators;

// `name`: "add" or "add_" of torch.ops.aten.add_.Tensor. Thread-safe.
bool IsKnownOperator(std::string_view name);

}  // namespace stoker
