#include "program/graph_values.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/json_field.h"

namespace stoker {
namespace {

using nlohmann::json;
using Visit = absl::FunctionRef<void(const GraphValue&)>;

std::string* NameIn(json& value, const char* key) {
  if (!value.is_object()) return nullptr;
  const auto it = value.find(key);
  return it != value.end() && it->is_string() ? it->get_ptr<std::string*>()
                                              : nullptr;
}

// {"name": "x"}, or lists of that.
void VisitTensors(json& value, Visit visit) {
  if (value.is_array()) {
    for (json& element : value) VisitTensors(element, visit);
  } else if (std::string* name = NameIn(value, "name")) {
    visit({.kind = "as_tensor", .name = name});
  }
}

// {"as_name": "n"} or {"as_int": 3}, or a list of that.
void VisitNumbers(json& value, std::string_view kind, Visit visit) {
  if (value.is_array()) {
    for (json& element : value) VisitNumbers(element, kind, visit);
  } else if (std::string* name = NameIn(value, "as_name")) {
    visit({.kind = std::string(kind), .name = name});
  } else {
    visit({.kind = std::string(kind), .constant = &value});
  }
}

}  // namespace

void ForEachValue(json& argument, Visit visit) {
  if (argument.is_array()) {
    for (json& element : argument) ForEachValue(element, visit);
    return;
  }
  if (!argument.is_object()) return;
  for (auto& [tag, value] : argument.items()) {
    if (tag == "as_tensor" || tag == "as_tensors" ||
        tag == "as_nested_tensors") {
      VisitTensors(value, visit);
    } else if (tag == "as_optional_tensor" || tag == "as_optional_tensors") {
      ForEachValue(value, visit);
    } else if (tag.starts_with("as_sym_")) {
      VisitNumbers(
          value,
          std::string_view(tag).substr(0, tag.size() - tag.ends_with('s')),
          visit);
    } else if (tag == "as_string_to_argument") {
      if (!value.is_object()) continue;
      for (auto& [key, element] : value.items()) ForEachValue(element, visit);
    } else if (tag != "as_graph") {
      visit({.kind = tag, .constant = &argument});
    }
  }
}

void ForEachInputValue(json& inputs, Visit visit) {
  if (!inputs.is_array()) return;
  for (json& input : inputs) {
    if (input.is_object() && input.contains("arg")) {
      ForEachValue(input["arg"], visit);
    }
  }
}

std::vector<GraphValue> ValuesOf(json& argument) {
  std::vector<GraphValue> values;
  ForEachValue(argument,
               [&values](const GraphValue& value) { values.push_back(value); });
  return values;
}

bool IsGraph(const json& graph) {
  return Field(graph, "inputs").is_array() &&
         Field(graph, "outputs").is_array() && Field(graph, "nodes").is_array();
}

json* CalledGraph(json& input) {
  if (!Field(Field(Field(input, "arg"), "as_graph"), "graph").is_object()) {
    return nullptr;
  }
  return &input["arg"]["as_graph"]["graph"];
}

FreshNames::FreshNames(json& graph) {
  const auto take = [this](const GraphValue& value) {
    if (value.name != nullptr) taken_.insert(*value.name);
  };
  ForEachValue(graph["inputs"], take);
  for (json& node : graph["nodes"]) {
    if (!node.is_object()) continue;
    if (node.contains("outputs")) ForEachValue(node["outputs"], take);
    taken_.insert(TextField(node, "name"));
  }
  for (const char* table : kValueTables) {
    for (const auto& [name, value] : Field(graph, table).items()) {
      taken_.insert(name);
    }
  }
}

std::string FreshNames::Take(const std::string& wanted) {
  std::string name = wanted;
  for (int& n = used_[wanted]; !taken_.insert(name).second;) {
    name = absl::StrCat(wanted, "_", ++n);
  }
  return name;
}

}  // namespace stoker
