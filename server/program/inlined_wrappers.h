// Operators that call a graph of their own and compute what that graph
// computes: torch.export keeps `with torch.no_grad():`, `with
// torch.autocast(enabled=False):` and marked regions of a model as such
// (higher_order.wrap_with_set_grad_enabled, wrap_with_autocast, strict_mode,
// hints_wrapper, invoke_subgraph, run_const_graph). Inference needs none of
// them, and nativert knows hardly one. The compiler's reader does the same
// (compiler/program/wrappers.py); tests/unit/program/testdata/wrappers.json
// holds both to the same answers. Pure; private to this room.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace stoker {

// Puts the nodes of such graphs, however nested, in the place of the operators
// that call them, under names that no other value or node of the graph around
// has, and returns whether there were any. Loops over rows are unrolled before
// (program/unrolled_loops.h). What such an operator gave back is
// called as the graph called it, in the program's signature too.
//
// `program` is a model.json that ParseJson took; errors begin with `where`.
// INVALID_ARGUMENT for autocast to another precision, for a call that doesn't
// fit its graph, and for a graph that uses values of others or makes one twice;
// `program` is changed in part then.
//
// A graph is written into the program once per call, so that nothing is copied:
// the result is as large as `program` with its loops unrolled, up to the digits
// behind a name. Every
// node moves once per level of nesting, of which ParseJson bounds the number.
absl::StatusOr<bool> InlineWrappers(nlohmann::json& program,
                                    const std::string& where);

}  // namespace stoker
