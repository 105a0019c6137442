#include "program/inlined_wrappers.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/json_field.h"
#include "base/status_macros.h"
#include "program/called_graphs.h"
#include "program/graph_values.h"
#include "program/scalar_type.h"
#include "program/source_line.h"
#include "program/unrolled_loops.h"

namespace stoker {
namespace {

using nlohmann::json;
// Of values, from what they were called to what they are called now.
using ValueNames = std::unordered_map<std::string, std::string>;

// Operands begin so many inputs behind the graph; -1: no wrapper.
int OperandsAt(std::string_view name) {
  if (name == "wrap_with_set_grad_enabled" || name == "wrap_with_autocast" ||
      name == "strict_mode" || name == "hints_wrapper" ||
      name == "run_const_graph") {
    return 1;
  }
  return name == "invoke_subgraph" ? 2 : -1;  // behind the graph's own name
}

// Whether a graph that the node calls has values of half the width of float32,
// which autocast to that would widen.
bool HoldsHalves(const json& node) {
  std::vector<const json*> open = {&node};
  while (!open.empty()) {
    const json& value = *open.back();
    open.pop_back();
    const json& dtype = Field(value, "dtype");
    for (const ScalarType half : {ScalarType::kHalf, ScalarType::kBFloat16}) {
      if (dtype == static_cast<int>(half)) return true;
    }
    for (const json& child : value) {
      if (child.is_structured()) open.push_back(&child);
    }
  }
  return false;
}

void Rename(const GraphValue& value, const ValueNames& names) {
  if (value.name == nullptr) return;
  const auto it = names.find(*value.name);
  if (it != names.end()) *value.name = it->second;
}

// One graph, whose wrappers' nodes become its own.
class Inliner {
 public:
  Inliner(json& graph, const std::string& where)
      : graph_(graph), where_(where) {}

  // What wrappers gave back is called so now.
  const ValueNames& renamed() const { return renamed_; }

  absl::StatusOr<bool> Run() {
    if (!IsGraph(graph_)) return false;
    bool inlined = false;
    bool has_wrappers = false;
    for (json& node : graph_["nodes"]) {
      const std::string_view name = HigherOrderName(node);
      if (name.empty()) continue;
      has_wrappers = has_wrappers || OperandsAt(name) >= 0;
      ASSIGN_OR_RETURN(const bool inside, RunInside(node));
      inlined = inlined || inside;
    }
    if (!has_wrappers) return inlined;
    FreshNames fresh(graph_);
    names_ = &fresh;
    json nodes = std::exchange(graph_["nodes"], json::array());
    const auto rename = [this](const GraphValue& value) {
      Rename(value, renamed_);
    };
    for (json& node : nodes) {
      if (node.is_object() && node.contains("inputs")) {
        ForEachInputValue(node["inputs"], rename);
      }
      if (OperandsAt(HigherOrderName(node)) >= 0) {
        RETURN_IF_ERROR(Inline(node));
      } else {
        graph_["nodes"].push_back(std::move(node));
      }
    }
    ForEachValue(graph_["outputs"], rename);
    return true;
  }

 private:
  // The graphs that a node calls.
  absl::StatusOr<bool> RunInside(json& node) {
    bool inlined = false;
    if (!Field(node, "inputs").is_array()) return inlined;
    for (json& input : node["inputs"]) {
      json* called = CalledGraph(input);
      if (called == nullptr) continue;
      ASSIGN_OR_RETURN(const bool inside, Inliner(*called, where_).Run());
      inlined = inlined || inside;
    }
    return inlined;
  }

  absl::Status Bad(const json& node, std::string_view expected,
                   std::string_view got) const {
    return absl::InvalidArgumentError(absl::StrCat(
        where_, ": expected ", Absl(expected), ", got '",
        TextField(node, "target"), "'", Absl(got), AtSourceLine(node)));
  }

  absl::Status Inline(json& node) {
    if (!Field(node, "inputs").is_array() ||
        !Field(node, "outputs").is_array()) {
      return Bad(node, "operators with inputs and outputs", "");
    }
    RETURN_IF_ERROR(CheckPrecision(node));
    json& inputs = node["inputs"];
    size_t at = 0;
    while (at < inputs.size() && CalledGraph(inputs[at]) == nullptr) ++at;
    if (at == inputs.size() || !IsGraph(*CalledGraph(inputs[at]))) {
      return Bad(node, "a graph that the operator calls", "");
    }
    json inner = std::exchange(*CalledGraph(inputs[at]), json());
    ValueNames names;
    RETURN_IF_ERROR(BindOperands(node, at, inner, names));
    RETURN_IF_ERROR(MoveNodes(node, inner, names));
    MoveTables(inner, names);
    return BindOutputs(node, inner, names);
  }

  // (device, dtype, whether it is on, whether it caches, graph, ...).
  absl::Status CheckPrecision(const json& node) const {
    if (HigherOrderName(node) != "wrap_with_autocast") return absl::OkStatus();
    const json& inputs = node["inputs"];
    const auto setting = [&inputs](size_t i, const char* tag) -> const json& {
      return Field(Field(i < inputs.size() ? inputs[i] : inputs, "arg"), tag);
    };
    if (setting(2, "as_bool") == false) return absl::OkStatus();
    if (setting(1, "as_scalar_type") == static_cast<int>(ScalarType::kFloat) &&
        !HoldsHalves(node)) {
      return absl::OkStatus();
    }
    return Bad(node,
               "a program without autocast to another precision than float32 "
               "(export the model without it, and say 'compile: {precision: "
               "bfloat16}' in model.yaml for linear layers in bfloat16)",
               "");
  }

  // What the graph calls its inputs is what the operator was given.
  absl::Status BindOperands(json& node, size_t at, json& inner,
                            ValueNames& names) {
    json& inputs = node["inputs"];
    std::vector<GraphValue> given;
    const auto first =
        at + static_cast<size_t>(OperandsAt(HigherOrderName(node)));
    for (size_t i = first; i < inputs.size(); ++i) {
      // By keyword comes only what hints_wrapper is told, which is no operand.
      constexpr int kKeyword = 2;
      if (Field(inputs[i], "kind") == kKeyword) continue;
      if (!Field(inputs[i], "arg").is_object()) continue;
      for (const GraphValue& value : ValuesOf(inputs[i]["arg"])) {
        given.push_back(value);
      }
    }
    const std::vector<GraphValue> taken = ValuesOf(inner["inputs"]);
    const char* expected = "as many operands as the graph that it calls takes";
    if (given.size() != taken.size()) {
      return Bad(node, expected,
                 absl::StrCat(" with ", given.size(), " for ", taken.size()));
    }
    for (size_t i = 0; i < taken.size(); ++i) {
      const bool is_constant = taken[i].name == nullptr;
      const bool fits =
          is_constant
              ? given[i].name == nullptr &&
                    *given[i].constant == *taken[i].constant
              : given[i].name != nullptr && given[i].kind == taken[i].kind &&
                    names.emplace(*taken[i].name, *given[i].name).second;
      if (!fits) {
        return Bad(node, "operands like the inputs of the graph that it calls",
                   absl::StrCat(" with another operand ", i));
      }
    }
    return absl::OkStatus();
  }

  absl::Status MoveNodes(const json& caller, json& inner, ValueNames& names) {
    bool is_closed = true;
    const auto use = [&](const GraphValue& value) {
      is_closed =
          is_closed && (value.name == nullptr || names.contains(*value.name));
      Rename(value, names);
    };
    const auto make = [&](const GraphValue& value) {
      if (value.name == nullptr) return;
      const auto made = names.try_emplace(*value.name);
      is_closed = is_closed && made.second;
      if (made.second) made.first->second = names_->Take(*value.name);
      *value.name = made.first->second;
    };
    for (json& node : inner["nodes"]) {
      if (!Field(node, "inputs").is_array() ||
          !Field(node, "outputs").is_array()) {
        return Bad(caller, "nodes with inputs and outputs in its graph", "");
      }
      ForEachInputValue(node["inputs"], use);
      ForEachValue(node["outputs"], make);
      if (!is_closed) {
        return Bad(caller,
                   "a graph whose operators use its own values only "
                   "and make each once",
                   "");
      }
      if (Field(node, "name").is_string()) {
        // Mostly that of the node's only output.
        const std::string name = TextField(node, "name");
        const auto it = names.find(name);
        node["name"] = it != names.end() ? it->second : names_->Take(name);
      }
      graph_["nodes"].push_back(std::move(node));
    }
    return absl::OkStatus();
  }

  void MoveTables(json& inner, const ValueNames& names) {
    for (const char* table : kValueTables) {
      if (!Field(inner, table).is_object()) continue;
      for (auto& [name, value] : inner[table].items()) {
        const auto it = names.find(name);
        // What is said of the operator's operands stands.
        if (it == names.end() || Field(graph_, table).contains(it->second)) {
          continue;
        }
        graph_[table][it->second] = std::move(value);
      }
    }
  }

  // What the operator gave back is what its graph gave back.
  absl::Status BindOutputs(json& node, json& inner, const ValueNames& names) {
    const std::vector<GraphValue> made = ValuesOf(inner["outputs"]);
    const std::vector<GraphValue> taken = ValuesOf(node["outputs"]);
    const char* expected = "as many results as the graph that it calls has";
    if (made.size() != taken.size()) {
      return Bad(node, expected,
                 absl::StrCat(" with ", taken.size(), " for ", made.size()));
    }
    for (size_t i = 0; i < made.size(); ++i) {
      if (made[i].name == nullptr && taken[i].name == nullptr) continue;
      const auto it =
          made[i].name != nullptr ? names.find(*made[i].name) : names.end();
      if (it == names.end() || taken[i].name == nullptr ||
          made[i].kind != taken[i].kind) {
        return Bad(node, "results like those of the graph that it calls",
                   absl::StrCat(" with another result ", i));
      }
      if (!renamed_.emplace(*taken[i].name, it->second).second) {
        return Bad(node, "results of names of their own", "");
      }
      for (const char* table : kValueTables) {
        if (Field(graph_, table).is_object()) {
          graph_[table].erase(*taken[i].name);
        }
      }
    }
    return absl::OkStatus();
  }

  json& graph_;
  const std::string& where_;
  FreshNames* names_ = nullptr;  // while Run has a graph with wrappers
  ValueNames renamed_;
};

// {"user_output": {"arg": {"as_tensor": {"name": "y"}}}}, or, of what the
// program writes to, {"buffer_mutation": {"arg": {"name": "y"}, ...}}.
void RenameOutputs(json& signature, const ValueNames& names) {
  if (!Field(signature, "output_specs").is_array()) return;
  for (json& spec : signature["output_specs"]) {
    if (!spec.is_object()) continue;
    for (auto& [kind, body] : spec.items()) {
      if (!Field(body, "arg").is_object()) continue;
      json& argument = body["arg"];
      ForEachValue(argument,
                   [&names](const GraphValue& value) { Rename(value, names); });
      const auto it = names.find(TextField(argument, "name"));
      if (it != names.end()) argument["name"] = it->second;
    }
  }
}

}  // namespace

absl::StatusOr<bool> InlineWrappers(json& program, const std::string& where) {
  RETURN_IF_ERROR(UnrollLoops(program, where).status());
  if (!Field(Field(program, "graph_module"), "graph").is_object()) return false;
  json& module = program["graph_module"];
  Inliner inliner(module["graph"], where);
  ASSIGN_OR_RETURN(const bool inlined, inliner.Run());
  if (module.contains("signature")) {
    RenameOutputs(module["signature"], inliner.renamed());
  }
  return inlined;
}

}  // namespace stoker
