#include "program/input_ranges.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/json_field.h"

namespace stoker {
namespace {

using nlohmann::json;

// Operators whose first result has the values of their first argument.
constexpr std::string_view kKeepValues[] = {
    "_to_copy",  "alias",     "clone",  "contiguous",      "detach",  "detach_",
    "expand",    "flatten",   "narrow", "lift_fresh_copy", "permute", "repeat",
    "reshape",   "select",    "slice",  "squeeze",         "t",       "to",
    "transpose", "unflatten", "view",   "unsqueeze"};
constexpr std::string_view kDivisions[] = {"div", "floor_divide", "fmod",
                                           "remainder"};
// Small ones, of which quotients differ.
constexpr IntegerRange kDivisors = {1, 7};

template <typename List>
bool Contains(const List& list, std::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

// "embedding" of "torch.ops.aten.embedding.default"; empty of others.
std::string_view AtenName(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.aten.";
  if (!target.starts_with(kPrefix)) return "";
  target.remove_prefix(kPrefix.size());
  return target.substr(0, target.find('.'));
}

// The argument of that name: {"as_tensor": ...}; null where there is none.
const json& Argument(const json& node, std::string_view name) {
  static const json& nothing = *new json;
  for (const json& input : Field(node, "inputs")) {
    if (TextField(input, "name") == name) return Field(input, "arg");
  }
  return nothing;
}

std::string TensorName(const json& argument) {
  return TextField(Field(argument, "as_tensor"), "name");
}

class RangeFinder {
 public:
  explicit RangeFinder(const json& program)
      : module_(Field(program, "graph_module")),
        graph_(Field(module_, "graph")) {}

  std::map<std::string, IntegerRange> Find() {
    for (const json& spec : Field(Field(module_, "signature"), "input_specs")) {
      const std::string name =
          TensorName(Field(Field(spec, "user_input"), "arg"));
      if (!name.empty()) input_of_[name] = name;
    }
    for (const json& node : Field(graph_, "nodes")) Visit(node);
    std::erase_if(ranges_, [](const auto& one) {
      return one.second.first > one.second.second;
    });
    return std::move(ranges_);
  }

 private:
  void Visit(const json& node) {
    const std::string target = TextField(node, "target");
    const std::string_view op = AtenName(target);
    if (op == "embedding" || op == "embedding_bag") {
      AddIndex(Argument(node, "indices"), Argument(node, "weight"), 0);
    } else if (op == "index_select" || op == "gather") {
      const json& dim = Field(Argument(node, "dim"), "as_int");
      if (dim.is_number_integer()) {
        AddIndex(Argument(node, "index"), Argument(node, "self"),
                 dim.get<int64_t>());
      }
    } else if (op == "index") {
      AddIndices(node);
    } else if (op == "one_hot") {
      const json& classes = Field(Argument(node, "num_classes"), "as_int");
      if (classes.is_number_integer()) {
        Add(Argument(node, "self"), {0, classes.get<int64_t>() - 1});
      }
    } else if (Contains(kDivisions, op)) {
      Add(Argument(node, "other"), kDivisors);
    } else if (Contains(kKeepValues, op)) {
      Follow(node);
    }
  }

  // One tensor, or none, for each dimension.
  void AddIndices(const json& node) {
    const json& list = Argument(node, "indices");
    for (const char* tag : {"as_optional_tensors", "as_tensors"}) {
      int64_t dim = 0;
      for (const json& index : Field(list, tag)) {
        const json& tensor =
            index.contains("name") ? json{{"as_tensor", index}} : index;
        AddIndex(tensor, Argument(node, "self"), dim++);
      }
    }
  }

  void AddIndex(const json& index, const json& table, int64_t dim) {
    const json& sizes =
        Field(Field(Field(graph_, "tensor_values"), TensorName(table).c_str()),
              "sizes");
    if (!sizes.is_array()) return;
    const auto rank = static_cast<int64_t>(sizes.size());
    if (dim < -rank || dim >= rank) return;
    const json& size =
        Field(sizes[static_cast<size_t>(dim < 0 ? dim + rank : dim)], "as_int");
    if (size.is_number_integer()) Add(index, {0, size.get<int64_t>() - 1});
  }

  void Add(const json& argument, IntegerRange range) {
    const auto input = input_of_.find(TensorName(argument));
    if (input == input_of_.end()) return;
    const auto [known, added] = ranges_.emplace(input->second, range);
    if (added) return;
    known->second.first = std::max(known->second.first, range.first);
    known->second.second = std::min(known->second.second, range.second);
  }

  void Follow(const json& node) {
    const json& inputs = Field(node, "inputs");
    const json& outputs = Field(node, "outputs");
    if (!inputs.is_array() || inputs.empty() || !outputs.is_array() ||
        outputs.empty()) {
      return;
    }
    const auto input = input_of_.find(TensorName(Field(inputs[0], "arg")));
    const std::string made = TensorName(outputs[0]);
    if (input != input_of_.end() && !made.empty()) {
      input_of_[made] = input->second;
    }
  }

  const json& module_;
  const json& graph_;
  // Value → the input whose values it has.
  std::map<std::string, std::string> input_of_;
  std::map<std::string, IntegerRange> ranges_;
};

}  // namespace

std::map<std::string, IntegerRange> InputRanges(const json& program) {
  return RangeFinder(program).Find();
}

}  // namespace stoker
