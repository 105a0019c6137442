#include "repository/pipeline_yaml.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/yaml_value.h"
#include "repository/model_folder.h"
#include "repository/snapshot_source.h"
#include "repository/version_choice.h"

namespace stoker {
namespace {

constexpr size_t kMaxSteps = 64;
constexpr int64_t kMaxBatch = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxTokens = 1 << 20;

const YamlValue* Find(const YamlValue::Entries& entries,
                      std::string_view field) {
  const auto found =
      std::find_if(entries.begin(), entries.end(),
                   [&](const auto& entry) { return entry.first == field; });
  return found == entries.end() ? nullptr : &found->second;
}

class PipelineReader {
 public:
  explicit PipelineReader(std::string folder) : folder_(std::move(folder)) {}

  void Read(const YamlValue& root) {
    const auto entries = root.Map({"pipeline", "versions", "max_batch_size"});
    if (!entries) return;
    if (const YamlValue* value = Find(*entries, "versions")) {
      ReadVersions(*value);
    }
    if (const YamlValue* value = Find(*entries, "max_batch_size")) {
      spec_.max_batch_size = value->Int(0, kMaxBatch).value_or(0);
    }
    if (const YamlValue* value = Find(*entries, "pipeline")) {
      ReadPipelineField(*value);
    }
  }

  PipelineSpec Take() { return std::move(spec_); }

 private:
  // A tensor of the pipeline: who makes it, and where that is said.
  struct Made {
    int step;  // -1: the client
    YamlValue place;
    bool used = false;
  };

  void ReadPipelineField(const YamlValue& pipeline) {
    const auto fields = pipeline.Map({"inputs", "outputs", "steps"});
    if (!fields) return;
    const YamlValue* const inputs = Find(*fields, "inputs");
    const YamlValue* const outputs = Find(*fields, "outputs");
    const YamlValue* const steps = Find(*fields, "steps");
    if (inputs == nullptr || outputs == nullptr || steps == nullptr) {
      return pipeline.Error("inputs, outputs and steps", "not all of them");
    }
    const auto ins = ReadTensors(*inputs, spec_.inputs);
    for (const auto& [name, place] : ins) Make(name, -1, place);
    ReadSteps(*steps);
    for (const auto& [name, place] : uses_) Use(name, place);
    for (const auto& [name, place] : ReadTensors(*outputs, spec_.outputs)) {
      Use(name, place);
    }
    for (const auto& [name, made] : made_) {
      if (made.step < 0 && !made.used) {
        made.place.Error("an input that a step takes",
                         absl::StrCat("'", name, "', which none does"));
      }
    }
    Order(*steps);
  }

  using Named = std::vector<std::pair<std::string, YamlValue>>;

  // A list of names, or a map of them to what is said of each.
  static Named ReadTensors(const YamlValue& value,
                           std::vector<PipelineTensor>& tensors) {
    Named named;
    if (value.is_list()) {
      const std::vector<YamlValue> elements = *value.List();
      for (const YamlValue& element : elements) {
        named.emplace_back(ReadName(element), element);
        tensors.push_back({named.back().first, std::nullopt, std::nullopt});
      }
    } else if (value.is_map()) {
      const auto entries = value.MapOfNames();
      if (!entries) return named;
      for (const auto& [name, entry] : *entries) {
        tensors.push_back(ReadDeclaration(name, entry));
        named.emplace_back(name, entry);
      }
    }
    if (named.empty()) value.Error("a list of names, or a map with them");
    std::set<std::string> seen;
    for (const auto& [name, place] : named) {
      if (!seen.insert(name).second) place.Error("every name once", name);
    }
    return named;
  }

  static PipelineTensor ReadDeclaration(const std::string& name,
                                        const YamlValue& value) {
    PipelineTensor tensor{name, std::nullopt, std::nullopt};
    const auto fields = value.Map({"datatype", "dims"});
    if (!fields) return tensor;
    if (const YamlValue* dtype = Find(*fields, "datatype")) {
      tensor.dtype = ParseDataType(dtype->text());
      if (!tensor.dtype) dtype->Error("a datatype, such as FP32 or BYTES");
    }
    if (const YamlValue* dims = Find(*fields, "dims")) {
      const auto elements = dims->List();
      if (!elements) return tensor;
      tensor.dims.emplace();
      for (const YamlValue& element : *elements) {
        tensor.dims->push_back(
            element.Int(-1, std::numeric_limits<int64_t>::max()).value_or(-1));
      }
    }
    return tensor;
  }

  static std::string ReadName(const YamlValue& value) {
    if (value.text().empty()) value.Error("the name of a tensor");
    return value.text();
  }

  void ReadSteps(const YamlValue& value) {
    const auto elements = value.List();
    if (!elements) return;
    if (elements->empty() || elements->size() > kMaxSteps) {
      return value.Error(absl::StrCat("1 to ", kMaxSteps, " steps"),
                         absl::StrCat(elements->size()));
    }
    std::set<std::string> names;
    for (const YamlValue& element : *elements) {
      std::optional<PipelineStep> step = ReadStep(element);
      if (!step) continue;
      if (!names.insert(step->name).second) {
        element.Error("a name of its own for each step (name:)", step->name);
      }
      spec_.steps.push_back(*std::move(step));
    }
  }

  std::optional<PipelineStep> ReadStep(const YamlValue& value) {
    const auto fields = value.Map({"name", "model", "version", "tokenizer",
                                   "max_length", "inputs", "outputs"});
    if (!fields) return std::nullopt;
    PipelineStep step;
    const YamlValue* const model = Find(*fields, "model");
    const YamlValue* const tokenizer = Find(*fields, "tokenizer");
    if ((model == nullptr) == (tokenizer == nullptr)) {
      value.Error("either a model or a tokenizer",
                  model == nullptr ? "neither" : "both");
      return std::nullopt;
    }
    if (model != nullptr) {
      ReadModel(*model, Find(*fields, "version"), step);
    } else {
      ReadTokenizer(*tokenizer, Find(*fields, "version"), step);
    }
    if (const YamlValue* length = Find(*fields, "max_length")) {
      if (model != nullptr) {
        length->Error("none of a model (it is a tokenizer's)");
      }
      step.max_length = length->Int(1, kMaxTokens).value_or(0);
    }
    step.name = model != nullptr ? step.model : "tokenizer";
    if (const YamlValue* name = Find(*fields, "name")) {
      step.name = name->text();
      if (!CheckModelName("", step.name).ok()) {
        name->Error("a name of letters, digits, '_', '-' and '.'");
      }
    }
    const int index = static_cast<int>(spec_.steps.size());
    const YamlValue* const inputs = Find(*fields, "inputs");
    const YamlValue* const outputs = Find(*fields, "outputs");
    if (inputs == nullptr || outputs == nullptr) {
      value.Error("inputs and outputs", "not both");
      return std::nullopt;
    }
    for (auto& [tensor, place] : ReadMap(*inputs, step.inputs)) {
      uses_.emplace_back(tensor, place);
    }
    for (const auto& [tensor, place] : ReadMap(*outputs, step.outputs)) {
      Make(tensor, index, place);
    }
    if (model == nullptr) CheckTokenizer(step, *inputs, *outputs);
    return step;
  }

  static void ReadModel(const YamlValue& model, const YamlValue* version,
                        PipelineStep& step) {
    step.model = model.text();
    if (!CheckModelName("", step.model).ok()) {
      model.Error("the name of a model");
      step.model = "?";
    }
    if (version == nullptr) return;
    if (IsAlias(version->text())) {
      step.alias = version->text();
    } else {
      step.version =
          version->Int(1, std::numeric_limits<int64_t>::max()).value_or(0);
    }
  }

  void ReadTokenizer(const YamlValue& tokenizer, const YamlValue* version,
                     PipelineStep& step) {
    const std::string file = tokenizer.text();
    // In the model's folder, and not out of it again.
    if (file.empty() || file.front() == '.' ||
        file.find('/') != std::string::npos) {
      tokenizer.Error("the name of a file beside model.yaml");
    }
    step.tokenizer_path = absl::StrCat(folder_, "/", file);
    if (version != nullptr) version->Error("none of a tokenizer");
  }

  static void CheckTokenizer(const PipelineStep& step, const YamlValue& inputs,
                             const YamlValue& outputs) {
    if (step.inputs.size() != 1 || step.inputs[0].own != kTokenizerInput) {
      inputs.Error(absl::StrCat("one input of a tokenizer, ", kTokenizerInput),
                   "another");
    }
    for (const StepTensor& output : step.outputs) {
      if (output.own == kInputIds || output.own == kAttentionMask ||
          output.own == kTokenTypeIds) {
        continue;
      }
      outputs.Error(absl::StrCat("outputs of a tokenizer: ", kInputIds, ", ",
                                 kAttentionMask, " or ", kTokenTypeIds),
                    output.own);
    }
  }

  // {the model's: the pipeline's}, or a list of those that are called alike.
  static Named ReadMap(const YamlValue& value,
                       std::vector<StepTensor>& tensors) {
    Named named;
    if (value.is_list()) {
      const std::vector<YamlValue> elements = *value.List();
      for (const YamlValue& element : elements) {
        const std::string name = ReadName(element);
        tensors.push_back({name, name});
        named.emplace_back(name, element);
      }
    } else if (value.is_map()) {
      const auto entries = value.MapOfNames();
      if (!entries) return named;
      for (const auto& [own, entry] : *entries) {
        tensors.push_back({own, ReadName(entry)});
        named.emplace_back(tensors.back().tensor, entry);
      }
    }
    if (named.empty()) {
      value.Error(
          "a map from the model's tensors to the pipeline's, or a list");
    }
    std::set<std::string> seen;
    for (const StepTensor& tensor : tensors) {
      if (!seen.insert(tensor.own).second) {
        value.Error("every tensor of the model once", tensor.own);
      }
    }
    return named;
  }

  void Make(const std::string& name, int step, const YamlValue& place) {
    const auto [known, is_new] = made_.emplace(name, Made{step, place, false});
    if (is_new || (step < 0 && known->second.step < 0)) return;
    place.Error("a tensor that nothing else makes",
                absl::StrCat("'", name, "', which ", MakerOf(known->second),
                             known->second.step < 0 ? "" : " makes as well"));
  }

  std::string MakerOf(const Made& made) const {
    return made.step < 0 ? "is an input of the pipeline"
                         : absl::StrCat("step '", StepName(made.step), "'");
  }
  std::string StepName(int step) const {
    const auto index = static_cast<size_t>(step);
    return index < spec_.steps.size() ? spec_.steps[index].name : "?";
  }

  void Use(const std::string& name, const YamlValue& place) {
    const auto found = made_.find(name);
    if (found != made_.end()) {
      found->second.used = true;
      return;
    }
    place.Error("a tensor that the pipeline takes or a step makes",
                absl::StrCat("'", name, "', which nobody makes"));
  }

  // Puts each step behind those whose tensors it takes.
  void Order(const YamlValue& place) {
    std::vector<PipelineStep> left = std::move(spec_.steps);
    spec_.steps.clear();
    std::set<std::string> there;
    for (const PipelineTensor& input : spec_.inputs) there.insert(input.name);
    const auto ready = [&](const PipelineStep& step) {
      return std::all_of(
          step.inputs.begin(), step.inputs.end(), [&](const StepTensor& in) {
            return there.contains(in.tensor) || !made_.contains(in.tensor);
          });
    };
    while (!left.empty()) {
      const auto next = std::find_if(left.begin(), left.end(), ready);
      if (next == left.end()) break;
      for (const StepTensor& out : next->outputs) there.insert(out.tensor);
      spec_.steps.push_back(std::move(*next));
      left.erase(next);
    }
    if (left.empty()) return;
    place.Error("steps without a circle",
                absl::StrCat(Circle(left),
                             ", each of which takes what the one "
                             "before makes"));
    std::move(left.begin(), left.end(), std::back_inserter(spec_.steps));
  }

  // "a -> b -> a", of steps that all wait for another of them.
  static std::string Circle(const std::vector<PipelineStep>& steps) {
    const auto maker_of = [&](const PipelineStep& step) -> const PipelineStep* {
      for (const StepTensor& in : step.inputs) {
        for (const PipelineStep& other : steps) {
          for (const StepTensor& out : other.outputs) {
            if (out.tensor == in.tensor) return &other;
          }
        }
      }
      return nullptr;
    };
    std::vector<const PipelineStep*> way = {&steps.front()};
    for (;;) {
      const PipelineStep* const maker = maker_of(*way.back());
      if (maker == nullptr) break;
      const auto seen = std::find(way.begin(), way.end(), maker);
      const bool closed = seen != way.end();
      if (closed) way.erase(way.begin(), seen);
      way.push_back(maker);
      if (closed) break;
    }
    std::reverse(way.begin(), way.end());
    return absl::StrJoin(way, " -> ", [](std::string* out, const auto* step) {
      absl::StrAppend(out, "'", step->name, "'");
    });
  }

  const std::string folder_;
  PipelineSpec spec_;
  std::map<std::string, Made> made_;
  Named uses_;
};

}  // namespace

std::vector<std::string> PipelineSpec::ModelNames() const {
  std::set<std::string> names;
  for (const PipelineStep& step : steps) {
    if (!step.is_tokenizer()) names.insert(step.model);
  }
  return {names.begin(), names.end()};
}

absl::StatusOr<std::shared_ptr<const PipelineSpec>> ReadPipeline(
    std::string_view yaml, const std::string& yaml_path,
    const std::string& folder) {
  ASSIGN_OR_RETURN(const YAML::Node document, ParseYaml(yaml, yaml_path));
  if (!document["pipeline"].IsDefined()) return nullptr;
  YamlErrors errors(yaml_path);
  PipelineReader reader(folder);
  reader.Read(YamlValue(document, "", errors));
  RETURN_IF_ERROR(errors.status());
  return std::make_shared<const PipelineSpec>(reader.Take());
}

}  // namespace stoker
