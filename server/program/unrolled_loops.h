// Loops over the rows of tensors whose number is fixed: torch.scan and
// torch.map, which torch.export keeps as operators that call a graph once per
// row (higher_order.scan, map_impl). nativert runs neither, and AOTInductor's
// C++ fails on both; as operators of the program the steps are run, guarded and
// compiled like any others. The compiler's reader does the same
// (compiler/program/loops.py); tests/unit/program/testdata/wrappers.json holds
// both to the same answers. Pure; private to this room.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace stoker {

// Puts a wrapper (program/inlined_wrappers.h) for each step in the place of
// such loops, however nested, with operators that take the rows and stack the
// results, and returns whether there were any. Values keep their names.
//
// `program` is a model.json that ParseJson took; errors begin with `where`.
// INVALID_ARGUMENT, with operator and the model's line, for a loop over a
// number of rows that varies or is above kMaxUnrolledSteps, with anything but
// tensors among its operands, or that doesn't fit its graph, and where all
// steps of all loops together are larger than kMaxUnrolledWeight; `program` is
// changed in part then.
absl::StatusOr<bool> UnrollLoops(nlohmann::json& program,
                                 const std::string& where);

}  // namespace stoker
