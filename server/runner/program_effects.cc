#include "runner/program_effects.h"

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/json_field.h"
#include "program/own_tensor.h"
#include "program/source_line.h"
#include "runner/registered_operator.h"

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

// The names that the signature gives to the program's own tensors.
Roots OwnTensors(const json& signature) {
  Roots roots;
  const json& specs = Field(signature, "input_specs");
  if (!specs.is_array()) return roots;
  for (const json& spec : specs) {
    const std::optional<OwnTensor> own = ReadOwnTensor(spec);
    if (own.has_value() && !own->value.empty()) {
      roots[own->value].insert(own->name);
    }
  }
  return roots;
}

// Operators that write statistics while they normalise in training mode, of
// which their schemas say nothing: the flag of that mode, by operator.
const char* TrainingFlag(std::string_view target) {
  constexpr std::pair<std::string_view, const char*> kFlags[] = {
      {"torch.ops.aten.batch_norm.default", "training"},
      {"torch.ops.aten.native_batch_norm.default", "training"},
      {"torch.ops.aten.cudnn_batch_norm.default", "training"},
      {"torch.ops.aten.miopen_batch_norm.default", "training"},
      {"torch.ops.aten._batch_norm_impl_index.default", "training"},
      {"torch.ops.aten.instance_norm.default", "use_input_stats"}};
  for (const auto& [name, flag] : kFlags) {
    if (name == target) return flag;
  }
  return nullptr;
}

// These tensors are written by `node`.
void NoteWrites(const std::set<std::string>& tensors, const json& node,
                std::string_view how, ProgramEffects& effects) {
  for (const std::string& tensor : tensors) {
    effects.written_tensors.emplace(
        tensor,
        absl::StrCat(TextField(node, "target"), Absl(how), AtSourceLine(node)));
  }
}

void FollowStatistics(const json& node, const std::string& target,
                      const Roots& roots, ProgramEffects& effects) {
  const char* const flag = TrainingFlag(target);
  if (flag == nullptr || !Field(node, "inputs").is_array()) return;
  bool training = false;
  std::vector<std::string> names;
  for (const json& input : Field(node, "inputs")) {
    const std::string argument = TextField(input, "name");
    const json& value = Field(input, "arg");
    if (argument == flag) training = Field(value, "as_bool") == true;
    if (argument == "running_mean" || argument == "running_var") {
      CollectNames(json::array({value}), names);
    }
  }
  if (!training) return;
  for (const std::string& name : names) {
    const auto own = roots.find(name);
    if (own == roots.end()) continue;
    NoteWrites(own->second, node, " in training mode", effects);
  }
}

// Follows one operator: what it writes, and what its outputs may show.
void FollowNode(const json& node, Roots& roots, ProgramEffects& effects) {
  const std::string target = TextField(node, "target");
  FollowStatistics(node, target, roots, effects);
  const auto op = FindOperator(target);
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
      NoteWrites(behind, node, "", effects);
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
      effects.written_tensors.emplace(TextField(written, name_key),
                                      "as its signature says");
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

absl::Status CheckKeepsNoState(const ProgramEffects& effects,
                               const std::string& where) {
  if (effects.written_tensors.empty()) return absl::OkStatus();
  const auto& [name, by] = *effects.written_tensors.begin();
  const size_t others = effects.written_tensors.size() - 1;
  return absl::InvalidArgumentError(absl::StrCat(
      where, ": expected a program that keeps no state, got one that writes '",
      name, "'", others == 0 ? "" : absl::StrCat(" and ", others, " more"),
      " (", by,
      "): its clients would change each other's answers. Call eval() before "
      "the export; what a model has to remember goes in as an input, and out "
      "as an output"));
}

}  // namespace stoker
