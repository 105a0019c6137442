#include "repository/ensemble_yaml.h"

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "repository/yaml_text.h"

namespace stoker {
namespace {

std::string YamlType(triton::DataType type) {
  if (type == triton::TYPE_STRING) return "BYTES";
  return std::string(absl::StripPrefix(triton::DataType_Name(type), "TYPE_"));
}

void CheckOptional(const triton::ModelInput& input, const PbtxtMessage& place) {
  if (input.optional()) place.Refuse("optional", "false", "true");
}
void CheckOptional(const triton::ModelOutput& /*output*/,
                   const PbtxtMessage& /*place*/) {}

template <typename Tensors>
void WriteTensors(const char* field, const char* config_field,
                  const Tensors& tensors, bool batched,
                  const PbtxtMessage& root,
                  const std::function<void(int, const std::string&)>& add) {
  add(root.LineOf(config_field), absl::StrCat("  ", field, ":"));
  for (int i = 0; i < tensors.size(); ++i) {
    const PbtxtMessage place = root.Child(config_field, tensors[i], i);
    place.CheckMeanings();
    CheckOptional(tensors[i], place);
    if (tensors[i].has_reshape()) {
      place.Refuse("reshape", "none (a step's model says it)", "one");
    }
    std::vector<int64_t> dims(tensors[i].dims().begin(),
                              tensors[i].dims().end());
    if (batched) dims.insert(dims.begin(), -1);
    add(place.line(),
        absl::StrCat("    ", YamlName(tensors[i].name()),
                     ": {datatype: ", YamlType(tensors[i].data_type()),
                     ", dims: ", YamlList(dims), "}"));
  }
}

// The model's tensor to the ensemble's, in one order.
std::string YamlMap(
    const google::protobuf::Map<std::string, std::string>& tensors) {
  const std::map<std::string, std::string> sorted(tensors.begin(),
                                                  tensors.end());
  return absl::StrCat("{",
                      absl::StrJoin(sorted, ", ",
                                    [](std::string* out, const auto& entry) {
                                      absl::StrAppend(
                                          out, YamlName(entry.first), ": ",
                                          YamlName(entry.second));
                                    }),
                      "}");
}

}  // namespace

void WriteEnsemble(const triton::ModelConfig& config, const PbtxtMessage& root,
                   const std::function<void(int, const std::string&)>& add) {
  const bool batched = config.max_batch_size() > 0;
  if (batched) {
    add(root.LineOf("max_batch_size"),
        absl::StrCat("max_batch_size: ", config.max_batch_size()));
  }
  const triton::ModelEnsembling& ensemble = config.ensemble_scheduling();
  const PbtxtMessage place = root.Child("ensemble_scheduling", ensemble);
  place.CheckMeanings();
  add(place.line(), "pipeline:");
  WriteTensors("inputs", "input", config.input(), batched, root, add);
  WriteTensors("outputs", "output", config.output(), batched, root, add);
  add(place.line(), "  steps:");
  std::set<std::string> names;
  for (int i = 0; i < ensemble.step_size(); ++i) {
    const triton::ModelEnsembling::Step& step = ensemble.step(i);
    const PbtxtMessage at = place.Child("step", step, i);
    at.CheckMeanings();
    add(at.LineOf("model_name"),
        absl::StrCat("  - model: ", YamlName(step.model_name())));
    if (!names.insert(step.model_name()).second) {
      add(at.LineOf("model_name"),
          absl::StrCat("    name: ",
                       YamlName(absl::StrCat(step.model_name(), "-", i + 1))));
    }
    if (step.model_version() > 0) {
      add(at.LineOf("model_version"),
          absl::StrCat("    version: ", step.model_version()));
    }
    add(at.LineOf("input_map"),
        absl::StrCat("    inputs: ", YamlMap(step.input_map())));
    add(at.LineOf("output_map"),
        absl::StrCat("    outputs: ", YamlMap(step.output_map())));
  }
}

}  // namespace stoker
