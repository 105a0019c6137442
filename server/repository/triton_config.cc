#include "repository/triton_config.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "repository/config_pbtxt.h"
#include "repository/config_rate_limiter.h"
#include "repository/config_tensors.h"
#include "repository/ensemble_yaml.h"
#include "repository/model_repository.h"
#include "repository/pipeline_yaml.h"
#include "repository/yaml_text.h"

namespace stoker {
namespace {

class YamlWriter {
 public:
  YamlWriter(const ConfigPbtxt& file, ConfigNotes& notes)
      : config_(file.config), root_(file, notes) {}

  void WriteVersions() {
    if (!config_.has_version_policy()) return;
    const triton::ModelVersionPolicy& policy = config_.version_policy();
    const int line = root_.LineOf("version_policy");
    if (policy.has_all()) {
      Add(line, "versions: all");
    } else if (policy.has_specific()) {
      Add(line,
          absl::StrCat("versions: ", YamlList(policy.specific().versions())));
    } else if (policy.latest().num_versions() > 1) {
      Add(line, absl::StrCat("versions: {latest: ",
                             policy.latest().num_versions(), "}"));
    }
  }

  void WriteAll(const ModelSpec& program, const ConfigTensors& tensors) {
    root_.CheckMeanings();
    root_.Child("model_transaction_policy", config_.model_transaction_policy())
        .CheckMeanings();
    if (config_.has_ensemble_scheduling()) {
      root_.Refuse("ensemble_scheduling", "none without platform: ensemble",
                   "a model that is made of others");
    }
    CheckIdentity(program);
    WriteVersions();
    Add(root_.LineOf("max_batch_size"),
        absl::StrCat("max_batch_size: ", config_.max_batch_size()));
    WriteBatchInputs(tensors);
    WriteTensors("inputs", tensors.inputs);
    WriteTensors("outputs", tensors.outputs);
    WriteBuckets(program, tensors);
    WriteInstances();
    for (const auto& [line, text] : RateLimiterYaml(config_, root_)) {
      Add(line, text);
    }
    WriteParameters();
    if (config_.has_dynamic_batching()) WriteBatching();
  }

  void WriteAsPipeline(const std::string& model) {
    root_.CheckMeanings();
    CheckName(model);
    WriteVersions();
    if (!config_.has_ensemble_scheduling()) {
      root_.Refuse("ensemble_scheduling", "steps of an ensemble", "none");
      return;
    }
    if (config_.instance_group_size() > 0) {
      root_.Ignore("instance_group", "its steps' models have instances");
    }
    WriteEnsemble(config_, root_, [this](int line, const std::string& text) {
      Add(line, text);
    });
  }

  TritonConfig::Yaml Take() { return std::move(yaml_); }

 private:
  void Add(int line, const std::string& text) {
    absl::StrAppend(&yaml_.text, text, "\n");
    yaml_.lines.push_back(line);
  }

  void CheckName(const std::string& model) const {
    if (config_.name().empty() || config_.name() == model) return;
    root_.Refuse("name", absl::StrCat("the folder's, ", model), config_.name());
  }

  void CheckIdentity(const ModelSpec& program) const {
    CheckName(program.name);
    static const auto* const backends =
        new std::set<std::string>{"", "pytorch", "stoker"};
    if (!backends->contains(config_.backend())) {
      root_.Refuse("backend", "pytorch", config_.backend());
    }
    static const auto* const platforms = new std::set<std::string>{
        "", "torch_aoti", "pytorch_libtorch", "stoker_pt2"};
    if (!platforms->contains(config_.platform())) {
      root_.Refuse("platform", "torch_aoti", config_.platform());
    }
    if (!config_.default_model_filename().empty() &&
        config_.default_model_filename() != "model.pt2") {
      root_.Refuse("default_model_filename", "model.pt2",
                   config_.default_model_filename());
    }
  }

  void WriteTensors(const char* field,
                    const std::vector<ConfigTensors::Tensor>& tensors) {
    if (tensors.empty()) return;
    Add(tensors.front().line, absl::StrCat(field, ":"));
    for (const ConfigTensors::Tensor& tensor : tensors) {
      std::vector<std::string> fields;
      if (tensor.config != tensor.program) {
        fields.push_back(absl::StrCat("name: ", YamlName(tensor.config)));
      }
      if (tensor.is_bytes) fields.emplace_back("datatype: BYTES");
      if (tensor.reshape.has_value()) {
        fields.push_back(
            absl::StrCat("dims: ", YamlList(tensor.reshape->dims)));
        fields.push_back(
            absl::StrCat("reshape: ", YamlList(tensor.reshape->shape)));
      }
      const std::string begin =
          absl::StrCat("  ", YamlName(tensor.program), ": {");
      if (!tensor.default_value.has_value()) {
        Add(tensor.line, absl::StrCat(begin, absl::StrJoin(fields, ", "), "}"));
        continue;
      }
      // On a line of its own, since it has one in the file.
      for (std::string& text : fields) text.append(",");
      Add(tensor.line, absl::StrCat(begin, absl::StrJoin(fields, " ")));
      Add(tensor.default_value->second,
          absl::StrCat("    default: ", YamlNumber(tensor.default_value->first),
                       "}"));
    }
  }

  void WriteBatchInputs(const ConfigTensors& tensors) {
    if (tensors.batch_inputs.empty()) return;
    Add(tensors.batch_inputs.front().line, "ragged:");
    for (const ConfigTensors::BatchInput& made : tensors.batch_inputs) {
      Add(made.line,
          absl::StrCat("  ", YamlName(made.target), ": {kind: ", made.kind,
                       ", source: ", YamlName(made.source), "}"));
    }
  }

  // Batches of one row, of the preferred sizes, or of eight, which is usual
  // here, and of the largest; and what else has sizes in the file.
  void WriteBuckets(const ModelSpec& program, const ConfigTensors& tensors) {
    std::map<int, ConfigTensors::Sizes> sizes = tensors.sizes;
    if (program.batch_dimension && config_.max_batch_size() > 0) {
      const DimensionSpec& batch = program.dimensions[*program.batch_dimension];
      ConfigTensors::Sizes& batches = sizes[*program.batch_dimension];
      if (batches.line == 0) batches.line = root_.LineOf("max_batch_size");
      batches.sizes.insert(batch.min);
      for (const int size : config_.dynamic_batching().preferred_batch_size()) {
        if (size <= config_.max_batch_size()) batches.sizes.insert(size);
      }
      constexpr int kUsualBatch = 8;
      if (batches.sizes.size() == 1) {
        batches.sizes.insert(std::min(kUsualBatch, config_.max_batch_size()));
      }
      batches.sizes.insert(config_.max_batch_size());
    }
    if (sizes.empty()) return;
    Add(sizes.begin()->second.line, "buckets:");
    for (const auto& [dimension, named] : sizes) {
      Add(named.line,
          absl::StrCat("  ", YamlName(program.dimensions[dimension].name), ": ",
                       YamlList(named.sizes)));
    }
  }

  void WriteInstances() {
    int line = 0;
    int processor = 0;        // instances there
    std::map<int, int> gpus;  // instances on each
    int any_gpu = 0;
    for (int i = 0; i < config_.instance_group_size(); ++i) {
      const triton::ModelInstanceGroup& group = config_.instance_group(i);
      const PbtxtMessage place = root_.Child("instance_group", group, i);
      place.CheckMeanings();
      if (line == 0) line = place.line();
      const int count = std::max(group.count(), 1);
      const bool names_gpus = group.gpus_size() > 0;
      if (group.kind() == triton::ModelInstanceGroup::KIND_GPU && !names_gpus) {
        place.Ignore("kind",
                     "without gpus it is one GPU, the one with most free "
                     "memory; a list in gpus makes it several");
        any_gpu += count;
      } else if (names_gpus) {
        for (const int gpu : group.gpus()) gpus[gpu] += count;
      } else {
        processor += count;
      }
    }
    if (line == 0) return;
    const int kinds = (processor > 0 ? 1 : 0) + (gpus.empty() ? 0 : 1) +
                      (any_gpu > 0 ? 1 : 0);
    const bool equal = std::all_of(gpus.begin(), gpus.end(), [&](auto gpu) {
      return gpu.second == gpus.begin()->second;
    });
    if (kinds > 1 || !equal) {
      root_.Refuse("instance_group",
                   "instances on the processor or on GPUs, as many on each",
                   "others");
      return;
    }
    WriteDevices(line, gpus, any_gpu > 0);
    Add(line, absl::StrCat("instances: ",
                           processor + any_gpu +
                               (gpus.empty() ? 0 : gpus.begin()->second)));
  }

  void WriteDevices(int line, const std::map<int, int>& gpus, bool any_gpu) {
    if (!gpus.empty()) {
      Add(line,
          absl::StrCat("device: [",
                       absl::StrJoin(gpus, ", ",
                                     [](std::string* out, const auto& gpu) {
                                       absl::StrAppend(out, "cuda:", gpu.first);
                                     }),
                       "]"));
    } else if (any_gpu) {
      Add(line, "device: cuda:auto");
    } else if (config_.instance_group(0).kind() ==
               triton::ModelInstanceGroup::KIND_CPU) {
      Add(line, "device: cpu");
    }
  }

  // Of an input that may be left out.
  bool IsDefault(const std::string& key) const {
    return std::any_of(config_.input().begin(), config_.input().end(),
                       [&](const triton::ModelInput& input) {
                         return input.optional() &&
                                key == absl::StrCat(kDefaultKey, input.name());
                       });
  }

  void WriteParameters() {
    const std::vector<std::string> keys = ParameterKeys(config_);
    for (int i = 0; i < static_cast<int>(keys.size()); ++i) {
      const std::string& key = keys[static_cast<size_t>(i)];
      if (IsDefault(key)) continue;
      if (absl::StartsWith(key, kDefaultKey)) {
        root_.Refuse("parameters",
                     absl::StrCat(kDefaultKey, "NAME of an optional input"),
                     key, i);
        continue;
      }
      if (key != "INTRA_OP_THREAD_COUNT") {
        root_.Ignore("parameters",
                     absl::StrCat(key, " is none that is known here"), i);
        continue;
      }
      const std::string& value = config_.parameters().at(key).string_value();
      int threads = 0;
      if (absl::SimpleAtoi(value, &threads)) {
        Add(root_.LineOf("parameters", i), absl::StrCat("threads: ", threads));
      } else {
        root_.Refuse("parameters", absl::StrCat("a number as ", key), value, i);
      }
    }
  }

  void WriteBatching() {
    const triton::ModelDynamicBatching& batching = config_.dynamic_batching();
    const PbtxtMessage place = root_.Child("dynamic_batching", batching);
    place.CheckMeanings();
    const auto add = [&](const char* field, const std::string& value) {
      Add(place.LineOf(field),
          absl::StrCat("  ", field, value.empty() ? ":" : ": ", value));
    };
    Add(place.line(), "dynamic_batching:");
    add("preferred_batch_size", YamlList(batching.preferred_batch_size()));
    add("max_queue_delay_microseconds",
        absl::StrCat(batching.max_queue_delay_microseconds()));
    if (batching.preserve_ordering()) add("preserve_ordering", "true");
    if (batching.priority_levels() > 0) {
      add("priority_levels", absl::StrCat(batching.priority_levels()));
      add("default_priority_level",
          absl::StrCat(batching.default_priority_level()));
    }
    if (batching.has_default_queue_policy()) {
      add("default_queue_policy", "");
      WritePolicy(
          place.Child("default_queue_policy", batching.default_queue_policy()),
          batching.default_queue_policy(), "    ");
    }
    if (batching.priority_queue_policy().empty()) return;
    add("priority_queue_policy", "");
    const PbtxtMessage all =
        place.Child("priority_queue_policy", batching.default_queue_policy());
    std::map<uint64_t, const triton::ModelQueuePolicy*> levels;
    for (const auto& [level, policy] : batching.priority_queue_policy()) {
      levels.emplace(level, &policy);
    }
    for (const auto& [level, policy] : levels) {
      Add(all.line(), absl::StrCat("    ", level, ":"));
      WritePolicy(all, *policy, "      ");
    }
  }

  // A size of 0 is no limit at Triton. Here the queue has one in any case,
  // since what waits holds memory.
  void WritePolicy(const PbtxtMessage& place,
                   const triton::ModelQueuePolicy& policy, const char* indent) {
    const auto add = [&](const char* field, const std::string& value) {
      Add(place.LineOf(field), absl::StrCat(indent, field, ": ", value));
    };
    add("timeout_action",
        triton::ModelQueuePolicy::TimeoutAction_Name(policy.timeout_action()));
    add("default_timeout_microseconds",
        absl::StrCat(policy.default_timeout_microseconds()));
    add("allow_timeout_override",
        policy.allow_timeout_override() ? "true" : "false");
    if (policy.max_queue_size() > 0) {
      add("max_queue_size", absl::StrCat(policy.max_queue_size()));
    }
  }

  const triton::ModelConfig& config_;
  const PbtxtMessage root_;
  TritonConfig::Yaml yaml_;
};

// "<path>:<line of the yaml>: ..." with lines of the config.pbtxt.
absl::Status AtItsLines(const absl::Status& status, const std::string& path,
                        const std::vector<int>& lines) {
  std::vector<std::string> messages;
  for (absl::string_view message : absl::StrSplit(status.message(), '\n')) {
    absl::string_view rest = message;
    size_t line = 0;
    if (absl::ConsumePrefix(&rest, path + ":") &&
        absl::SimpleAtoi(rest.substr(0, rest.find(':')), &line) && line > 0) {
      const int source = line <= lines.size() ? lines[line - 1] : 1;
      messages.push_back(
          absl::StrCat(PlaceText(path, source), rest.substr(rest.find(':'))));
    } else {
      messages.emplace_back(message);
    }
  }
  return absl::Status(status.code(), absl::StrJoin(messages, "\n"));
}

}  // namespace

TritonConfig::TritonConfig(std::shared_ptr<const ConfigPbtxt> file)
    : file_(std::move(file)) {}

absl::StatusOr<TritonConfig> TritonConfig::Parse(std::string_view text,
                                                 const std::string& path) {
  ASSIGN_OR_RETURN(std::shared_ptr<const ConfigPbtxt> file,
                   ParsePbtxt(text, path));
  return TritonConfig(std::move(file));
}

absl::StatusOr<TritonConfig> TritonConfig::ParseJson(const std::string& text,
                                                     const std::string& path) {
  ASSIGN_OR_RETURN(std::shared_ptr<const ConfigPbtxt> file,
                   ParseConfigJson(text, path));
  return TritonConfig(std::move(file));
}

absl::StatusOr<std::vector<int64_t>> TritonConfig::ChooseVersions(
    std::vector<int64_t> found) const {
  ConfigNotes notes;
  YamlWriter writer(*file_, notes);
  writer.WriteVersions();
  const Yaml yaml = writer.Take();
  absl::StatusOr<std::vector<int64_t>> chosen =
      stoker::ChooseVersions(yaml.text, file_->path, std::move(found));
  if (!chosen.ok()) {
    return AtItsLines(chosen.status(), file_->path, yaml.lines);
  }
  return chosen;
}

absl::StatusOr<TritonConfig::Yaml> TritonConfig::ToYaml(
    const ModelSpec& program) const {
  ConfigNotes notes;
  const ConfigTensors tensors = MatchTensors(*file_, program, notes);
  YamlWriter writer(*file_, notes);
  writer.WriteAll(program, tensors);
  RETURN_IF_ERROR(notes.status());
  Yaml yaml = writer.Take();
  yaml.ignored = std::move(notes.ignored);
  return yaml;
}

bool TritonConfig::is_ensemble() const {
  return file_->config.platform() == "ensemble";
}

absl::StatusOr<TritonConfig::Yaml> TritonConfig::EnsembleYaml(
    const std::string& model) const {
  ConfigNotes notes;
  YamlWriter writer(*file_, notes);
  writer.WriteAsPipeline(model);
  RETURN_IF_ERROR(notes.status());
  Yaml yaml = writer.Take();
  yaml.ignored = std::move(notes.ignored);
  return yaml;
}

absl::StatusOr<std::shared_ptr<const PipelineSpec>> TritonConfig::ReadEnsemble(
    const std::string& model, const std::string& folder) const {
  if (!is_ensemble()) return nullptr;
  ASSIGN_OR_RETURN(const Yaml yaml, EnsembleYaml(model));
  absl::StatusOr<std::shared_ptr<const PipelineSpec>> pipeline =
      ReadPipeline(yaml.text, file_->path, folder);
  if (!pipeline.ok()) {
    return AtItsLines(pipeline.status(), file_->path, yaml.lines);
  }
  return pipeline;
}

absl::StatusOr<std::vector<std::string>> TritonConfig::Apply(
    ModelSpec& spec) const {
  ASSIGN_OR_RETURN(Yaml yaml, ToYaml(spec));
  const absl::Status applied = ApplyModelYaml(yaml.text, file_->path, spec);
  if (!applied.ok()) return AtItsLines(applied, file_->path, yaml.lines);
  return std::move(yaml.ignored);
}

}  // namespace stoker
