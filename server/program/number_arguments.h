// Numbers where an operator's schema says a tensor. Python makes tensors of
// them when it calls the operator, torch.export keeps them as they were
// written, and nativert knows other overloads for most: not for
// floor_divide(x, 2), which is `x // 2`. Pure; private to this room.
#pragma once

#include "nlohmann/json_fwd.hpp"

namespace stoker {

// Has floor divisions by a number call the overload that takes one, and those
// of a number divide a tensor of it; returns whether there were any. `program`
// is a model.json that ParseJson took.
bool UseNumberOverloads(nlohmann::json& program);

}  // namespace stoker
