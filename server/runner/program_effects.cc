#include "runner/program_effects.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using nlohmann::json;
// Name of a value → the program's own tensors whose memory it may show.
using Roots = std::map<std::string, std::set<std::string>>;

const json* Find(const json* object, const char* key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto it = object->find(key);
  return it == object->end() ? nullptr : &*it;
}

std::string TextOf(const json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>()
                                                : std::string();
}

// The names of the tensors in an argument or output: {"as_tensor": {"name":
// ...}}, "as_tensors", "as_optional_tensors", however nested.
void CollectNames(const json& argument, std::vector<std::string>& names) {
  if (const json* name = Find(&argument, "name")) {
    if (name->is_string()) names.push_back(name->get<std::string>());
    return;
  }
  if (!argument.is_structured()) return;
  for (const json& part : argument) {
    for (const char* key : {"as_tensor", "as_tensors", "as_optional_tensors"}) {
      const json* inner = Find(&part, key);
      if (inner != nullptr) CollectNames(*inner, names);
    }
    if (part.is_array() || Find(&part, "name") != nullptr) {
      CollectNames(part, names);
    }
  }
}

// "torch.ops.aten.add_.Tensor" → the registered operator.
std::optional<c10::OperatorHandle> FindOperator(absl::string_view target) {
  if (!absl::ConsumePrefix(&target, "torch.ops.")) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(target, '.');
  if (parts.size() != 3) return std::nullopt;
  return c10::Dispatcher::singleton().findSchema(
      {parts[0] + "::" + parts[1], parts[2] == "default" ? "" : parts[2]});
}

// The names that the signature gives to the program's own tensors.
Roots OwnTensors(const json* signature) {
  Roots roots;
  const json* specs = Find(signature, "input_specs");
  if (specs == nullptr || !specs->is_array()) return roots;
  constexpr std::pair<const char*, const char*> kKinds[] = {
      {"parameter", "parameter_name"},
      {"buffer", "buffer_name"},
      {"tensor_constant", "tensor_constant_name"}};
  for (const json& spec : *specs) {
    for (const auto& [kind, name_key] : kKinds) {
      const json* own = Find(&spec, kind);
      const std::string value = TextOf(Find(Find(own, "arg"), "name"));
      if (!value.empty()) roots[value].insert(TextOf(Find(own, name_key)));
    }
  }
  return roots;
}

// Follows one operator: what it writes, and what its outputs may show.
void FollowNode(const json& node, Roots& roots, ProgramEffects& effects) {
  const auto op = FindOperator(TextOf(Find(&node, "target")));
  const json* inputs = Find(&node, "inputs");
  if (!op || !op->hasSchema() || inputs == nullptr || !inputs->is_array()) {
    return;
  }
  std::set<std::string> shown;
  for (const json& input : *inputs) {
    const auto index =
        op->schema().argumentIndexWithName(TextOf(Find(&input, "name")));
    const json* value = Find(&input, "arg");
    if (!index || value == nullptr) continue;
    const auto* alias = op->schema().arguments()[*index].alias_info();
    if (alias == nullptr) continue;
    std::vector<std::string> names;
    CollectNames(json::array({*value}), names);
    for (const std::string& name : names) {
      const std::set<std::string>& behind = roots[name];
      shown.insert(behind.begin(), behind.end());
      if (!alias->isWrite()) continue;
      effects.writes_in_place = true;
      effects.written_tensors.insert(behind.begin(), behind.end());
    }
  }
  const json* outputs = Find(&node, "outputs");
  if (shown.empty() || outputs == nullptr) return;
  std::vector<std::string> names;
  CollectNames(*outputs, names);
  for (const std::string& name : names) roots[name] = shown;
}

// Writes that a decomposed program declares in its signature.
void ReadDeclaredWrites(const json* signature, ProgramEffects& effects) {
  const json* specs = Find(signature, "output_specs");
  if (specs == nullptr || !specs->is_array()) return;
  for (const json& spec : *specs) {
    for (const auto& [kind, name_key] :
         {std::pair("buffer_mutation", "buffer_name"),
          std::pair("parameter_mutation", "parameter_name")}) {
      const json* written = Find(&spec, kind);
      if (written == nullptr) continue;
      effects.written_tensors.insert(TextOf(Find(written, name_key)));
      effects.writes_in_place = true;
    }
    if (Find(&spec, "user_input_mutation") != nullptr) {
      effects.writes_in_place = true;
    }
  }
}

}  // namespace

ProgramEffects ScanProgramEffects(const json& program) {
  ProgramEffects effects;
  const json* module = Find(&program, "graph_module");
  ReadDeclaredWrites(Find(module, "signature"), effects);
  Roots roots = OwnTensors(Find(module, "signature"));
  const json* nodes = Find(Find(module, "graph"), "nodes");
  if (nodes == nullptr || !nodes->is_array()) return effects;
  for (const json& node : *nodes) FollowNode(node, roots, effects);
  return effects;
}

}  // namespace stoker
