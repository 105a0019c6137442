// The values of a graph that an operator's argument or output names, whatever
// torch's schema wraps the name in: {"as_tensor": {"name": "x"}}, lists of
// those, sizes ({"as_sym_int": {"as_name": "n"}}). Private to this room.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

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

// What ForEachValue visits.
std::vector<GraphValue> ValuesOf(nlohmann::json& argument);

// What a graph says of its values, by their names.
inline constexpr const char* kValueTables[] = {
    "tensor_values", "sym_int_values", "sym_float_values", "sym_bool_values"};

// Whether it has lists of inputs, outputs and nodes.
bool IsGraph(const nlohmann::json& graph);

// The graph that an input of a node is; null where it is none. It need not be
// one by IsGraph.
nlohmann::json* CalledGraph(nlohmann::json& input);

// Names that nothing in a graph has.
class FreshNames {
 public:
  // Of a graph by IsGraph, which is not kept.
  explicit FreshNames(nlohmann::json& graph);

  // The wanted one, with digits behind it where that is taken.
  std::string Take(const std::string& wanted);

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> used_;  // digits, by wanted name
};

}  // namespace stoker
