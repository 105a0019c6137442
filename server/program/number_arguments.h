// Numbers that nativert takes otherwise than Python. Pure; private to this
// room.
//
// Where an operator's schema says a tensor, Python makes tensors of numbers
// when it calls the operator, torch.export keeps them as they were written, and
// nativert knows other overloads for most: not for floor_divide(x, 2), which is
// `x // 2`. And of numbers themselves it compares integers alone, and knows the
// remainder of no others.
#pragma once

#include "nlohmann/json_fwd.hpp"

namespace stoker {

// Has floor divisions by a number call the overload that takes one, and those
// of a number divide a tensor of it; comparisons and remainders of
// floating-point numbers call the server's own (runner/number_operators.h).
// Returns whether there were any. `program` is a model.json that ParseJson
// took.
bool UseNumberOverloads(nlohmann::json& program);

}  // namespace stoker
