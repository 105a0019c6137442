#include "program/called_graphs.h"

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/json_field.h"
#include "base/status_macros.h"
#include "program/source_line.h"

namespace stoker {
namespace {

using nlohmann::json;

std::string_view Instead(std::string_view name) {
  if (name == "associative_scan") {
    return "write the loop with operators on whole tensors or as a while_loop, "
           "and export the model again";
  }
  if (name.starts_with("flex_attention")) {
    return "use scaled_dot_product_attention, in transformers "
           "attn_implementation='sdpa', and export the model again";
  }
  return "export the model without it";
}

// Every error begins where the program's own graph is.
absl::Status CheckNodes(const JsonCursor& graph, const json& nodes) {
  if (!nodes.is_array()) return absl::OkStatus();
  for (const json& node : nodes) {
    const std::string_view name = HigherOrderName(node);
    if (name.empty()) continue;
    const std::string got =
        absl::StrCat("'", TextField(node, "target"), "'", AtSourceLine(node));
    if (name != "cond" && name != "while_loop") {
      return graph.Error(absl::StrCat("a program that runs without Python (",
                                      Absl(Instead(name)), ")"),
                         got);
    }
    if (!Field(node, "inputs").is_array()) continue;
    for (const json& input : node["inputs"]) {
      const json& called = Field(Field(input, "arg"), "as_graph");
      if (called.is_null()) continue;
      const json& inner = Field(called, "graph");
      for (const json& operand : Field(inner, "inputs")) {
        if (Field(operand, "as_tensor").is_object()) continue;
        return graph.Error(
            "graphs of torch.cond and while_loop that take tensors only (read "
            "sizes inside of them, and export the model again)",
            got);
      }
      RETURN_IF_ERROR(CheckNodes(graph, Field(inner, "nodes")));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view HigherOrderName(const json& node) {
  constexpr std::string_view kHigherOrder = "torch.ops.higher_order.";
  const json& target = Field(node, "target");
  if (!target.is_string()) return {};
  std::string_view name = target.get_ref<const std::string&>();
  if (!name.starts_with(kHigherOrder)) return {};
  name.remove_prefix(kHigherOrder.size());
  return name;
}

absl::Status CheckCalledGraphs(const JsonCursor& graph) {
  return CheckNodes(graph, Field(graph.value(), "nodes"));
}

}  // namespace stoker
