#include "program/unrolled_loops.h"

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/json_field.h"
#include "base/status_macros.h"
#include "program/called_graphs.h"
#include "program/graph_values.h"
#include "program/limits.h"
#include "program/source_line.h"

namespace stoker {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

// scan(graph, carried, rows of, others) → carried, stacked;
// map_impl(graph, rows of, others) → stacked.
struct Loop {
  json body;
  Names carried;
  Names rows;
  Names others;
  Names results;
  int64_t length = 0;

  size_t stacked() const { return results.size() - carried.size(); }
};

bool IsLoop(std::string_view name) {
  return name == "scan" || name == "map_impl";
}

// The tensors that an argument lists; nothing where anything else is in it.
std::optional<Names> TensorsOf(json& argument) {
  if (!argument.is_structured()) return std::nullopt;
  Names names;
  for (const GraphValue& value : ValuesOf(argument)) {
    if (value.kind != "as_tensor") return std::nullopt;
    if (value.name != nullptr) names.push_back(*value.name);
  }
  return names;
}

// Of a tensor's outermost dimension; 0: none, or not fixed.
int64_t LengthOf(const json& said) {
  const json& sizes = Field(said, "sizes");
  if (!sizes.is_array() || sizes.empty()) return 0;
  const json& size = Field(sizes[0], "as_int");
  return size.is_number_integer() ? size.get<int64_t>() : 0;
}

// What is said of a row of a tensor of which that is said.
json OfOneRow(json said) {
  for (const char* part : {"sizes", "strides"}) {
    if (!Field(said, part).is_array() || said[part].empty()) continue;
    said[part].erase(0);
  }
  return said;
}

// The bytes that a value takes, roughly.
int64_t Weight(const json& value) {
  constexpr int64_t kOfAnyValue = 32;
  int64_t weight = kOfAnyValue;
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) {
      weight += static_cast<int64_t>(key.size()) + Weight(child);
    }
  } else if (value.is_array()) {
    for (const json& child : value) weight += Weight(child);
  } else if (value.is_string()) {
    weight += static_cast<int64_t>(value.get_ref<const std::string&>().size());
  }
  return weight;
}

json Tensor(const std::string& name) {
  return {{"as_tensor", {{"name", name}}}};
}

json Tensors(const Names& names) {
  json list = json::array();
  for (const std::string& name : names) list.push_back({{"name", name}});
  return {{"as_tensors", std::move(list)}};
}

json Input(const char* name, json argument) {
  constexpr int kPositional = 1;
  return {{"name", name}, {"arg", std::move(argument)}, {"kind", kPositional}};
}

json Node(const char* target, json inputs, const std::string& output,
          const json& said) {
  return {{"target", target},
          {"inputs", std::move(inputs)},
          {"outputs", json::array({Tensor(output)})},
          {"metadata", said},
          {"is_hop_single_tensor_return", nullptr},
          {"name", output}};
}

json Row(const std::string& tensor, int64_t step, const std::string& output,
         const json& said) {
  return Node(
      "torch.ops.aten.select.int",
      json::array({Input("self", Tensor(tensor)), Input("dim", {{"as_int", 0}}),
                   Input("index", {{"as_int", step}})}),
      output, said);
}

json Stack(const Names& results, const std::string& output, const json& said) {
  return Node("torch.ops.aten.stack.default",
              json::array({Input("tensors", Tensors(results)),
                           Input("dim", {{"as_int", 0}})}),
              output, said);
}

json Step(const json& body, const Names& operands, const Names& outputs) {
  json made = json::array();
  for (const std::string& name : outputs) made.push_back(Tensor(name));
  json graph = {{"as_graph", {{"name", ""}, {"graph", body}}}};
  return {{"target", "torch.ops.higher_order.strict_mode"},
          {"inputs", json::array({Input("", std::move(graph)),
                                  Input("", Tensors(operands))})},
          {"outputs", std::move(made)},
          {"metadata", json::object()}};
}

Names Joined(std::initializer_list<const Names*> lists) {
  Names all;
  for (const Names* list : lists) {
    all.insert(all.end(), list->begin(), list->end());
  }
  return all;
}

class Unroller {
 public:
  explicit Unroller(const std::string& where) : where_(where) {}

  absl::StatusOr<bool> Run(json& graph) {
    if (!IsGraph(graph)) return false;
    bool unrolled = false;
    bool has_loops = false;
    for (json& node : graph["nodes"]) {
      const std::string_view name = HigherOrderName(node);
      has_loops = has_loops || IsLoop(name);
      if (name.empty() || !Field(node, "inputs").is_array()) continue;
      for (json& input : node["inputs"]) {
        json* called = CalledGraph(input);
        if (called == nullptr) continue;
        ASSIGN_OR_RETURN(const bool inside, Run(*called));
        unrolled = unrolled || inside;
      }
    }
    if (!has_loops) return unrolled;
    FreshNames names(graph);
    json nodes = std::exchange(graph["nodes"], json::array());
    for (json& node : nodes) {
      if (IsLoop(HigherOrderName(node))) {
        RETURN_IF_ERROR(Unroll(graph, node, names));
      } else {
        graph["nodes"].push_back(std::move(node));
      }
    }
    return true;
  }

 private:
  absl::Status Bad(const json& node, std::string_view expected,
                   std::string_view got = "") const {
    return absl::InvalidArgumentError(absl::StrCat(
        where_, ": expected ", Absl(expected), ", got '",
        TextField(node, "target"), "'", Absl(got), AtSourceLine(node)));
  }

  absl::StatusOr<Loop> Read(const json& graph, json& node) const {
    json& inputs = node["inputs"];
    json* called =
        inputs.is_array() && !inputs.empty() ? CalledGraph(inputs[0]) : nullptr;
    if (called == nullptr || !IsGraph(*called)) {
      return Bad(node, "a graph that the operator calls");
    }
    std::vector<std::optional<Names>> lists;
    if (HigherOrderName(node) == "map_impl") lists.emplace_back(Names());
    for (size_t i = 1; i < inputs.size(); ++i) {
      const bool has = Field(inputs[i], "arg").is_structured();
      lists.push_back(has ? TensorsOf(inputs[i]["arg"]) : std::nullopt);
    }
    std::optional<Names> results = TensorsOf(node["outputs"]);
    if (lists.size() != 3 || !lists[0] || !lists[1] || !lists[2] || !results ||
        results->size() < lists[0]->size() ||
        ValuesOf((*called)["outputs"]).size() != results->size() ||
        ValuesOf((*called)["inputs"]).size() !=
            lists[0]->size() + lists[1]->size() + lists[2]->size()) {
      return Bad(node,
                 "operands and results that are tensors, as many as the graph "
                 "that the operator calls takes and gives back");
    }
    ASSIGN_OR_RETURN(const int64_t length, ReadLength(graph, node, *lists[1]));
    return Loop{.body = std::move(*called),
                .carried = std::move(*lists[0]),
                .rows = std::move(*lists[1]),
                .others = std::move(*lists[2]),
                .results = std::move(*results),
                .length = length};
  }

  absl::StatusOr<int64_t> ReadLength(const json& graph, const json& node,
                                     const Names& rows) const {
    const json& values = Field(graph, "tensor_values");
    int64_t length = 0;
    for (const std::string& tensor : rows) {
      const int64_t one = LengthOf(Field(values, tensor.c_str()));
      length = &tensor == rows.data() || one == length ? one : 0;
    }
    if (length >= 1 && length <= kMaxUnrolledSteps) return length;
    return Bad(
        node,
        absl::StrCat("a loop over 1 to ", kMaxUnrolledSteps,
                     " rows, of a number that is fixed when the model is "
                     "exported (or write it with operators on whole tensors or "
                     "as a while_loop, and export the model again)"),
        length < 1 ? " over a number of rows that varies"
                   : absl::StrCat(" over ", length, " rows"));
  }

  absl::Status Unroll(json& graph, json& node, FreshNames& names) {
    ASSIGN_OR_RETURN(const Loop loop, Read(graph, node));
    const std::string kind(HigherOrderName(node));
    const json said = node.value("metadata", json::object());
    weight_ += loop.length *
               (Weight(loop.body) +
                static_cast<int64_t>(1 + loop.rows.size()) * Weight(said));
    if (weight_ > kMaxUnrolledWeight) {
      return Bad(node,
                 absl::StrCat("loops that unroll to at most ",
                              kMaxUnrolledWeight >> 20,
                              " MB of graph (write them with operators on "
                              "whole tensors or as a while_loop, and export "
                              "the model again)"));
    }
    const auto fresh = [&](size_t count, const char* what) {
      Names made;
      for (size_t i = 0; i < count; ++i) {
        made.push_back(names.Take(absl::StrCat(kind, "_", what)));
      }
      return made;
    };
    const auto first_stacked =
        loop.results.begin() + static_cast<ptrdiff_t>(loop.carried.size());
    const Names finals(loop.results.begin(), first_stacked);
    Names carried = loop.carried;
    std::vector<Names> stacked(loop.stacked());
    for (int64_t step = 0; step < loop.length; ++step) {
      const Names rows = fresh(loop.rows.size(), "row");
      for (size_t i = 0; i < rows.size(); ++i) {
        json& values = graph["tensor_values"];
        values[rows[i]] = OfOneRow(values[loop.rows[i]]);
        graph["nodes"].push_back(Row(loop.rows[i], step, rows[i], said));
      }
      const Names operands = Joined({&carried, &rows, &loop.others});
      const bool is_last = step + 1 == loop.length;
      carried = is_last ? finals : fresh(finals.size(), "carried");
      const Names made = fresh(stacked.size(), "result");
      graph["nodes"].push_back(
          Step(loop.body, operands, Joined({&carried, &made})));
      for (size_t i = 0; i < made.size(); ++i) stacked[i].push_back(made[i]);
    }
    for (size_t i = 0; i < stacked.size(); ++i) {
      graph["nodes"].push_back(
          Stack(stacked[i], first_stacked[static_cast<ptrdiff_t>(i)], said));
    }
    return absl::OkStatus();
  }

  const std::string& where_;
  int64_t weight_ = 0;  // of all steps so far
};

}  // namespace

absl::StatusOr<bool> UnrollLoops(json& program, const std::string& where) {
  if (!Field(Field(program, "graph_module"), "graph").is_object()) return false;
  return Unroller(where).Run(program["graph_module"]["graph"]);
}

}  // namespace stoker
