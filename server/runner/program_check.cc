#include "runner/program_check.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using nlohmann::json;

// The libraries whose operators compute on tensors. Custom operators would need
// a library that this process doesn't load.
constexpr absl::string_view kLibraries[] = {
    "aten",        "prims",       "quantized", "quantized_decomposed",
    "torchvision", "higher_order"};
// Operators of theirs that read or write the files that a program names.
constexpr absl::string_view kFileOperators[] = {"from_file", "save", "load"};
// Arithmetic on sizes, which nativert does itself.
constexpr absl::string_view kSizeOperators[] = {"_operator.", "torch.sym_",
                                                "math."};

template <typename List>
bool Contains(const List& list, absl::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

bool IsAllowed(absl::string_view target) {
  for (const absl::string_view prefix : kSizeOperators) {
    if (absl::StartsWith(target, prefix)) return true;
  }
  const std::vector<std::string> parts = absl::StrSplit(target, '.');
  return parts.size() >= 4 && parts.size() <= 5 && parts[0] == "torch" &&
         parts[1] == "ops" && Contains(kLibraries, parts[2]) &&
         !Contains(kFileOperators, parts[3]);
}

const json* Find(const json* object, const char* key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto it = object->find(key);
  return it == object->end() ? nullptr : &*it;
}

std::string TextOf(const json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>()
                                                : std::string();
}

// Every node of the graph and of graphs inside its arguments. A node is an
// object with a target; the walk keeps a list of its own, because a hostile
// text may be nested more deeply than a stack.
absl::Status CheckOperators(const json& graph) {
  std::vector<const json*> open = {&graph};
  while (!open.empty()) {
    const json* value = open.back();
    open.pop_back();
    if (const json* target = Find(value, "target")) {
      const std::string name = TextOf(target);
      if (!IsAllowed(name)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the graph calls '", name, "', which is not accepted"));
      }
    }
    if (!value->is_structured()) continue;
    for (const auto& [key, child] : value->items()) {
      if (key != "metadata" && child.is_structured()) open.push_back(&child);
    }
  }
  return absl::OkStatus();
}

// [{"as_int": 3}, ...] against {3, ...}.
bool SameSizes(const json* list, const std::vector<int64_t>& sizes) {
  if (list == nullptr || !list->is_array() || list->size() != sizes.size()) {
    return false;
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const json* size = Find(&(*list)[i], "as_int");
    if (size == nullptr || *size != sizes[i]) return false;
  }
  return true;
}

absl::Status CheckTensor(const std::string& name, const json* expected,
                         const StoredTensors& tensors) {
  const auto it = tensors.find(name);
  if (it == tensors.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the graph needs '", name, "', which the archive doesn't hold"));
  }
  const StoredTensor& stored = it->second;
  const json* type = Find(expected, "dtype");
  if (type == nullptr || *type != static_cast<int>(stored.type) ||
      !SameSizes(Find(expected, "sizes"), stored.sizes) ||
      !SameSizes(Find(expected, "strides"), stored.strides)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph expects another dtype, shape or layout of '",
                     name, "' than the archive holds"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckProgram(const json& program, const StoredTensors& tensors) {
  const json* module = Find(&program, "graph_module");
  const json* graph = Find(module, "graph");
  const json* nodes = Find(graph, "nodes");
  const json* specs = Find(Find(module, "signature"), "input_specs");
  if (nodes == nullptr || !nodes->is_array() || specs == nullptr ||
      !specs->is_array()) {
    return absl::InvalidArgumentError(
        "expected an exported program with graph_module.graph.nodes and "
        "graph_module.signature.input_specs, found other JSON");
  }
  if (absl::Status status = CheckOperators(*graph); !status.ok()) return status;
  const json* values = Find(graph, "tensor_values");
  constexpr std::pair<const char*, const char*> kOwn[] = {
      {"parameter", "parameter_name"},
      {"buffer", "buffer_name"},
      {"tensor_constant", "tensor_constant_name"}};
  for (const json& spec : *specs) {
    for (const auto& [kind, name_key] : kOwn) {
      const json* own = Find(&spec, kind);
      if (own == nullptr) continue;
      const std::string value = TextOf(Find(Find(own, "arg"), "name"));
      const absl::Status status = CheckTensor(
          TextOf(Find(own, name_key)), Find(values, value.c_str()), tensors);
      if (!status.ok()) return status;
    }
    if (Find(&spec, "custom_obj") != nullptr) {
      return absl::InvalidArgumentError(
          "the program holds a custom object, which is not accepted");
    }
  }
  return absl::OkStatus();
}

}  // namespace stoker
