#include "runner/program_effects.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/json_field.h"

namespace stoker {
namespace {

using nlohmann::json;
// Name of a value → the program's own tensors whose memory it may show.
using Roots = std::map<std::string, std::set<std::string>>;

// The names of the tensors in an argument or output: {"as_tensor": {"name":
// ...}}, "as_tensors", "as_optional_tensors", however nested.
void CollectNames(const json& argument, std::vector<std::string>& names) {
  if (const json& name = Field(argument, "name"); !name.is_null()) {
    if (name.is_string()) names.push_back(name.get<std::string>());
    return;
  }
  if (!argument.is_structured()) return;
  for (const json& part : argument) {
    for (const char* key : {"as_tensor", "as_tensors", "as_optional_tensors"}) {
      const json& inner = Field(part, key);
      if (!inner.is_null()) CollectNames(inner, names);
    }
    if (part.is_array() || !Field(part, "name").is_null()) {
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
Roots OwnTensors(const json& signature) {
  Roots roots;
  const json& specs = Field(signature, "input_specs");
  if (!specs.is_array()) return roots;
  constexpr std::pair<const char*, const char*> kKinds[] = {
      {"parameter", "parameter_name"},
      {"buffer", "buffer_name"},
      {"tensor_constant", "tensor_constant_name"}};
  for (const json& spec : specs) {
    for (const auto& [kind, name_key] : kKinds) {
      const json& own = Field(spec, kind);
      const std::string value = TextField(Field(own, "arg"), "name");
      if (!value.empty()) roots[value].insert(TextField(own, name_key));
    }
  }
  return roots;
}

// Follows one operator: what it writes, and what its outputs may show.
void FollowNode(const json& node, Roots& roots, ProgramEffects& effects) {
  const auto op = FindOperator(TextField(node, "target"));
  const json& inputs = Field(node, "inputs");
  if (!op || !op->hasSchema() || !inputs.is_array()) return;
  std::set<std::string> shown;
  for (const json& input : inputs) {
    const auto index =
        op->schema().argumentIndexWithName(TextField(input, "name"));
    const json& value = Field(input, "arg");
    if (!index || value.is_null()) continue;
    const auto* alias = op->schema().arguments()[*index].alias_info();
    if (alias == nullptr) continue;
    std::vector<std::string> names;
    CollectNames(json::array({value}), names);
    for (const std::string& name : names) {
      const std::set<std::string>& behind = roots[name];
      shown.insert(behind.begin(), behind.end());
      if (!alias->isWrite()) continue;
      effects.writes_in_place = true;
      effects.written_tensors.insert(behind.begin(), behind.end());
    }
  }
  const json& outputs = Field(node, "outputs");
  if (shown.empty() || outputs.is_null()) return;
  std::vector<std::string> names;
  CollectNames(outputs, names);
  for (const std::string& name : names) roots[name] = shown;
}

// Writes that a decomposed program declares in its signature.
void ReadDeclaredWrites(const json& signature, ProgramEffects& effects) {
  const json& specs = Field(signature, "output_specs");
  if (!specs.is_array()) return;
  for (const json& spec : specs) {
    for (const auto& [kind, name_key] :
         {std::pair("buffer_mutation", "buffer_name"),
          std::pair("parameter_mutation", "parameter_name")}) {
      const json& written = Field(spec, kind);
      if (written.is_null()) continue;
      effects.written_tensors.insert(TextField(written, name_key));
      effects.writes_in_place = true;
    }
    if (!Field(spec, "user_input_mutation").is_null()) {
      effects.writes_in_place = true;
    }
  }
}

}  // namespace

ProgramEffects ScanProgramEffects(const json& program) {
  ProgramEffects effects;
  const json& module = Field(program, "graph_module");
  const json& signature = Field(module, "signature");
  ReadDeclaredWrites(signature, effects);
  Roots roots = OwnTensors(signature);
  const json& nodes = Field(Field(module, "graph"), "nodes");
  if (!nodes.is_array()) return effects;
  for (const json& node : nodes) FollowNode(node, roots, effects);
  return effects;
}

}  // namespace stoker
