// What goes in and comes out beside tensors. torch.export bakes what isn't a
// tensor into the program (a number, a text, None for a mask that isn't given)
// and keeps a place for it among the inputs; None is also returned, for a cache
// that isn't kept. No client can send or get these, and the program doesn't
// look at them, so they go. The compiler's reader does likewise
// (compiler/program/fixed_values.py). Pure; private to this room.
#pragma once

#include "nlohmann/json_fwd.hpp"

namespace stoker {

// Takes fixed inputs and outputs that are None out of the program's graph, its
// signature and its tree specs, where an empty tuple keeps their place, so that
// the others keep their names; returns whether there were any. `program` is a
// model.json that ParseJson took, with plain containers
// (program/plain_containers.h); what isn't as torch writes it stays as it is,
// for its reader to refuse.
bool DropFixedValues(nlohmann::json& program);

}  // namespace stoker
