// The values of a graph that an operator's argument or output names, whatever
// torch's schema wraps the name in: {"as_tensor": {"name": "x"}}, lists of
// those, sizes ({"as_sym_int": {"as_name": "n"}}). Private to this room.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "nlohmann/json_fwd.hpp"

namespace stoker {

// One value that an argument names, or one constant that stands in it.
struct GraphValue {
  // What tells a tensor from a size: the argument's tag, of lists their
  // elements'.
  std::string kind;
  // The value's name, which may be written over; null: a constant.
  std::string* name = nullptr;
  // Of a constant: the argument that it is.
  const nlohmann::json* constant = nullptr;
};

// Calls `visit` for every value and constant in `argument`, in order. Graphs
// that are arguments have values of their own and are passed over, like what is
// of no known shape. An argument may be nested as deeply as ParseJson lets it.
void ForEachValue(nlohmann::json& argument,
                  absl::FunctionRef<void(const GraphValue&)> visit);

// The same of each element's member "arg", as a node's inputs are listed.
void ForEachInputValue(nlohmann::json& inputs,
                       absl::FunctionRef<void(const GraphValue&)> visit);

}  // namespace stoker
