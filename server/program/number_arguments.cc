#include "program/number_arguments.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json_field.h"
#include "program/scalar_type.h"

namespace stoker {
namespace {

using nlohmann::json;

constexpr char kFloorDivide[] = "torch.ops.aten.floor_divide.default";

// Of which runner/number_operators.h has one for all numbers.
constexpr std::string_view kOfIntegers[] = {
    "_operator.eq", "_operator.ne", "_operator.lt", "_operator.le",
    "_operator.gt", "_operator.ge", "_operator.mod"};

bool IsTensor(const json& input) {
  return Field(Field(input, "arg"), "as_tensor").is_object();
}

bool IsNumber(const json& input) {
  const json& argument = Field(input, "arg");
  return argument.contains("as_int") || argument.contains("as_float") ||
         argument.contains("as_sym_int") || argument.contains("as_sym_float");
}

bool IsFloatingNumber(const json& input) {
  const json& argument = Field(input, "arg");
  return argument.contains("as_float") || argument.contains("as_sym_float");
}

// Whether the node is changed.
bool UseOperatorOfNumbers(json& node) {
  const std::string target = TextField(node, "target");
  const json& inputs = Field(node, "inputs");
  if (std::find(std::begin(kOfIntegers), std::end(kOfIntegers), target) ==
          std::end(kOfIntegers) ||
      !inputs.is_array() ||
      std::none_of(inputs.begin(), inputs.end(), IsFloatingNumber)) {
    return false;
  }
  node["target"] = absl::StrCat(
      "torch.ops.stoker.", target.substr(target.find('.') + 1), ".default");
  return true;
}

// Whether a tensor like that holds the number as Python's own would: a number
// of a kind above the tensor's makes the result of that kind.
bool Holds(const json& value, const json& number) {
  const json& dtype = Field(value, "dtype");
  for (const ScalarType floating :
       {ScalarType::kHalf, ScalarType::kFloat, ScalarType::kDouble,
        ScalarType::kBFloat16}) {
    if (dtype == static_cast<int>(floating)) return true;
  }
  const json& argument = Field(number, "arg");
  return dtype != static_cast<int>(ScalarType::kBool) &&
         (argument.contains("as_int") || argument.contains("as_sym_int"));
}

// A node that makes a tensor like `like` of the number, called `name`.
json FullLike(const json& like, const json& number, const std::string& name) {
  return {
      {"target", "torch.ops.aten.full_like.default"},
      {"inputs",
       {{{"name", "self"}, {"arg", Field(like, "arg")}, {"kind", 1}},
        {{"name", "fill_value"}, {"arg", Field(number, "arg")}, {"kind", 1}}}},
      {"outputs", {{{"as_tensor", {{"name", name}}}}}},
      {"metadata", json::object()}};
}

std::string NewName(const json& values) {
  std::string name;
  do {
    name = absl::StrCat("number_", values.size(), name);
  } while (values.contains(name));
  return name;
}

// Whether the node is changed; what it is to be preceded by goes to `nodes`.
bool RewriteNode(json& node, json& values, json& nodes) {
  const json& inputs = Field(node, "inputs");
  if (Field(node, "target") != kFloorDivide || !inputs.is_array() ||
      inputs.size() != 2) {
    return false;
  }
  json& of = node["inputs"][0];
  json& by = node["inputs"][1];
  if (IsTensor(of) && IsNumber(by)) {
    node["target"] = "torch.ops.aten.floor_divide.Scalar";
    return true;
  }
  if (!IsNumber(of) || !IsTensor(by)) return false;
  const json& like =
      Field(values, TextField(by["arg"]["as_tensor"], "name").c_str());
  if (!like.is_object() || !Holds(like, of)) return false;
  const std::string name = NewName(values);
  values[name] = json(like);
  nodes.push_back(FullLike(by, of, name));
  of["arg"] = {{"as_tensor", {{"name", name}}}};
  return true;
}

bool RewriteGraph(json& graph) {
  json& values = graph["tensor_values"];
  json nodes = json::array();
  bool any = false;
  for (json& node : graph["nodes"]) {
    any |= UseOperatorOfNumbers(node);
    any |= RewriteNode(node, values, nodes);
    nodes.push_back(std::move(node));
  }
  graph["nodes"] = std::move(nodes);
  return any;
}

}  // namespace

bool UseNumberOverloads(json& program) {
  // Graphs may be nested more deeply than a stack.
  bool any = false;
  std::vector<json*> open = {&program["graph_module"]};
  while (!open.empty()) {
    json& value = *open.back();
    open.pop_back();
    if (Field(value, "nodes").is_array() &&
        Field(value, "tensor_values").is_object()) {
      any |= RewriteGraph(value);
    }
    if (!value.is_structured()) continue;
    for (auto& [key, child] : value.items()) {
      if (key != "metadata" && child.is_structured()) open.push_back(&child);
    }
  }
  return any;
}

}  // namespace stoker
