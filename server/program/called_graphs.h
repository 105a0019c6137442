// Operators of a program that call graphs of their own: torch's "higher order"
// ones. Pure; private to this room.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"
#include "program/json_cursor.h"

namespace stoker {

// "cond" of a node that calls torch.ops.higher_order.cond; empty of any that
// calls no such operator. Views the node.
std::string_view HigherOrderName(const nlohmann::json& node);

// Of a graph without wrappers and loops over rows
// (program/inlined_wrappers.h): INVALID_ARGUMENT,
// with operator and the model's line, for operators that neither nativert nor
// the compiler runs, which is all but torch.cond and while_loop, and for graphs
// of those that take anything but tensors, however deep they are in each other.
absl::Status CheckCalledGraphs(const JsonCursor& graph);

}  // namespace stoker
