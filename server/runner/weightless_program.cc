#include "runner/weightless_program.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "program/own_tensor.h"
#include "runner/device_program.h"
#include "runner/program_writer.h"

namespace stoker {
namespace {

using nlohmann::json;

// Makes an input of every weight that the signature names; returns what all
// inputs take.
std::vector<std::string> MakeInputs(json& specs) {
  std::vector<std::string> inputs;
  for (json& spec : specs) {
    std::string& name = inputs.emplace_back();
    if (std::optional<OwnTensor> own = ReadOwnTensor(spec)) {
      name = std::move(own->name);
      json argument = {{"as_tensor", {{"name", std::move(own->value)}}}};
      spec = {{"user_input", {{"arg", std::move(argument)}}}};
    }
  }
  return inputs;
}

// How a function is called that takes so many tensors by position: torch's tree
// of (positional arguments, keywords).
std::string TreeOf(size_t inputs) {
  const json leaf = {{"type", nullptr},
                     {"context", nullptr},
                     {"children_spec", json::array()}};
  const json positional = {{"type", "builtins.tuple"},
                           {"context", "null"},
                           {"children_spec", json::array_t(inputs, leaf)}};
  const json keywords = {{"type", "builtins.dict"},
                         {"context", "[]"},
                         {"children_spec", json::array()}};
  const json root = {{"type", "builtins.tuple"},
                     {"context", "null"},
                     {"children_spec", {positional, keywords}}};
  return JsonText(json::array({1, root}));
}

bool IsConfig(absl::string_view name) {
  return absl::StartsWith(name, "data/") &&
         absl::EndsWith(name, "_config.json");
}

}  // namespace

absl::StatusOr<WeightlessProgram> WriteWeightlessProgram(
    const ProgramArchive& archive, const Device& device) {
  json program = archive.program();
  json& module = program["graph_module"];
  const json& calls = Field(module, "module_call_graph");
  if (!Field(Field(module, "signature"), "input_specs").is_array() ||
      !calls.is_array() || calls.empty() ||
      !Field(calls[0], "signature").is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        archive.program_place(),
        ": expected a signature and how the program is called, got others"));
  }
  std::vector<std::string> inputs =
      MakeInputs(module["signature"]["input_specs"]);
  module["module_call_graph"][0]["signature"]["in_spec"] =
      TreeOf(inputs.size());
  if (device.is_gpu()) {
    PlaceFactories(program, device);
    MoveDevices(program, device);
  }
  ASSIGN_OR_RETURN(
      FileDescriptor file,
      WriteChangedProgram(
          *archive.zip(),
          [&program](absl::string_view name) -> absl::StatusOr<ChangedMember> {
            ChangedMember member;
            if (name == "models/model.json") {
              member.text = JsonText(program, {.ascii = true});
            } else if (IsConfig(name)) {
              member.text = R"({"config": {}})";
            } else {
              member.is_kept = !absl::StartsWith(name, "data/");
            }
            return member;
          }));
  return WeightlessProgram{std::move(file), std::move(inputs)};
}

absl::StatusOr<std::vector<c10::IValue>> WithWeights(
    absl::Span<const at::Tensor> weights, std::vector<c10::IValue> given) {
  std::vector<c10::IValue> arguments;
  arguments.reserve(weights.size());
  size_t next = 0;
  for (const at::Tensor& weight : weights) {
    if (weight.defined()) {
      arguments.emplace_back(weight);
    } else if (next < given.size()) {
      arguments.push_back(std::move(given[next++]));
    } else {
      break;
    }
  }
  if (arguments.size() == weights.size() && next == given.size()) {
    return arguments;
  }
  return absl::InternalError(absl::StrCat(
      "expected one tensor for each input of the program, got ", given.size()));
}

}  // namespace stoker
