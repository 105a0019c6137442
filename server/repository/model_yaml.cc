// ApplyModelYaml and ChooseVersions: what the operator's model.yaml says.

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/yaml_value.h"
#include "repository/compile_yaml.h"
#include "repository/default_buckets.h"
#include "repository/device_yaml.h"
#include "repository/dynamic_batching_yaml.h"
#include "repository/inputs_yaml.h"
#include "repository/model_repository.h"
#include "repository/ragged_yaml.h"
#include "repository/version_choice.h"

namespace stoker {
namespace {

constexpr int64_t kDefaultMaxBatch = 8;
// Against the float32 program: its numbers have 8 bits, so that among
// thousands of elements some are far off, and all together hardly.
constexpr double kBfloat16Tolerance = 2e-1;
constexpr double kBfloat16Rms = 2e-2;
// The same of 11 bits.
constexpr double kFloat16Tolerance = 3e-2;
constexpr double kFloat16Rms = 3e-3;
// Of integers of eight bits: single elements are far off, and what all of them
// say is not.
constexpr double kInt8Rms = 7e-2;
constexpr double kInt8Cosine = 0.997;
// One computes while the other's inputs and answers are copied.
constexpr int kInstancesOnGpu = 2;

const std::vector<std::string>& FieldNames() {
  static const auto* const names = new std::vector<std::string>{
      "ready_when", "versions",         "max_batch_size", "dimensions",
      "inputs",     "buckets",          "unmatched",      "compile",
      "threads",    "instances",        "cpus",           "numa_node",
      "weight",     "dynamic_batching", "parity",         "device",
      "graphs",     "unproved",         "outputs",        "update",
      "memory",     "resources",        "ragged"};
  return *names;
}

bool IsDimensionName(const std::string& name) {
  constexpr size_t kMaxName = 64;
  return !name.empty() && name.size() <= kMaxName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
         });
}

class SpecEditor {
 public:
  // `folder`: of the model.yaml.
  SpecEditor(ModelSpec& spec, std::string folder)
      : spec_(spec), folder_(std::move(folder)) {}

  void Apply(const YamlValue& root) {
    entries_ = root.Map(FieldNames()).value_or(YamlValue::Entries());
    // Not in the order written: buckets are named after dimensions and limited
    // by max_batch_size.
    if (const YamlValue* value = Find("versions")) ReadVersions(*value);
    if (const YamlValue* value = Find("ready_when")) {
      const bool eager = value->Choice({"eager", "warm"}) == 0;
      spec_.ready_when = eager ? ReadyWhen::kEager : ReadyWhen::kWarm;
    }
    if (const YamlValue* value = Find("update")) {
      const bool replace = value->Choice({"beside", "replace"}) == 1;
      spec_.update = replace ? Update::kReplace : Update::kBeside;
    }
    if (const YamlValue* value = Find("unproved")) {
      spec_.unproved = value->Bool().value_or(false);
    }
    if (const YamlValue* value = Find("unmatched")) {
      const bool reject = value->Choice({"eager", "reject"}) == 1;
      spec_.unmatched = reject ? Unmatched::kReject : Unmatched::kEager;
    }
    if (const YamlValue* value = Find("device")) ReadDevices(*value, spec_);
    if (const YamlValue* value = Find("graphs")) ReadGraphs(*value, spec_);
    if (const YamlValue* value = Find("compile")) {
      ReadCompile(*value, folder_, spec_.on_gpu(), spec_.compile);
      if (spec_.compile.dynamic != DynamicForms::kNone &&
          spec_.dimensions.empty()) {
        value->Error("dynamic: false for a program without dynamic dimensions",
                     "another");
      }
    }
    // Whatever the file says of how.
    if (spec_.isolated()) spec_.compile = {.enabled = false};
    if (const YamlValue* value = Find("threads")) {
      value->ReadInt(0, 1024, spec_.threads);
    }
    if (spec_.on_gpu()) spec_.instances = kInstancesOnGpu;
    if (const YamlValue* value = Find("instances")) {
      value->ReadInt(1, 64, spec_.instances);
    }
    if (const YamlValue* value = Find("cpus")) ReadCpus(*value, spec_);
    if (const YamlValue* value = Find("numa_node")) ReadNumaNode(*value, spec_);
    if (const YamlValue* value = Find("weight")) ReadWeight(*value, spec_);
    if (const YamlValue* value = Find("resources")) {
      ReadResources(*value, spec_);
    }
    if (const YamlValue* value = Find("memory")) ReadMemory(*value);
    if (const YamlValue* value = Find("dimensions")) ReadDimensions(*value);
    if (const YamlValue* value = Find("ragged")) ReadRagged(*value, spec_);
    if (const YamlValue* value = Find("max_batch_size")) ReadMaxBatch(*value);
    const YamlValue* const buckets = Find("buckets");
    spec_.auto_buckets = buckets != nullptr && buckets->text() == "auto";
    if (buckets != nullptr && !spec_.auto_buckets) {
      ReadBuckets(*buckets);
    } else {
      FillBuckets(root);
    }
    FitRequests();
    FillMaxBatch();
    if (const YamlValue* value = Find("inputs")) ReadInputs(*value, spec_);
    if (const YamlValue* value = Find("outputs")) ReadOutputs(*value, spec_);
    FillParity();
    if (const YamlValue* value = Find("parity")) ReadParity(*value);
    if (const YamlValue* value = Find("dynamic_batching")) {
      ReadDynamicBatching(*value, spec_.max_batch_size, spec_.dynamic_batching);
      const bool several = spec_.instances > 1 || spec_.devices.size() > 1;
      if (spec_.dynamic_batching.preserve_ordering && several) {
        value->Error("preserve_ordering: false with more than one instance",
                     "true");
      }
    }
  }

 private:
  const YamlValue* Find(std::string_view field) const {
    for (const auto& [name, value] : entries_) {
      if (name == field) return &value;
    }
    return nullptr;
  }

  void FillParity() {
    if (spec_.compile.precision == ComputePrecision::kBfloat16) {
      spec_.parity.rtol = spec_.parity.atol = kBfloat16Tolerance;
      spec_.parity.rms = kBfloat16Rms;
    } else if (spec_.compile.precision == ComputePrecision::kInt8) {
      spec_.parity.rtol = spec_.parity.atol = 1;
      spec_.parity.rms = kInt8Rms;
      spec_.parity.cosine = kInt8Cosine;
    } else if (spec_.compile.precision != ComputePrecision::kFloat32) {
      spec_.parity.rtol = spec_.parity.atol = kFloat16Tolerance;
      spec_.parity.rms = kFloat16Rms;
    }
  }

  void ReadDimensions(const YamlValue& value) {
    const auto entries = value.MapOfNames();
    if (!entries) return;
    std::set<int> named;
    for (const auto& [name, entry] : *entries) {
      if (!IsDimensionName(name)) {
        entry.Error("a name of letters, digits, '_', '-' and '.'", name);
        continue;
      }
      const auto fields = entry.Map({"axis", "padding"});
      if (!fields) continue;
      const YamlValue* axis = nullptr;
      const YamlValue* padding = nullptr;
      for (const auto& [key, field] : *fields) {
        (key == "axis" ? axis : padding) = &field;
      }
      if (axis == nullptr) {
        entry.Error("axis: <input>.<number>", "no axis");
        continue;
      }
      const std::optional<int> index = FindAxis(*axis);
      if (!index) continue;
      if (!named.insert(*index).second) {
        axis->Error("a dimension that has no other name",
                    absl::StrCat(axis->text(), ", which is ",
                                 spec_.dimensions[*index].name));
        continue;
      }
      spec_.dimensions[*index].name = name;
      if (padding != nullptr) ReadPadding(*padding, *index);
    }
    CheckDimensionNames(value);
  }

  void ReadPadding(const YamlValue& value, int index) {
    const std::optional<bool> padding = value.Bool();
    if (!padding) return;
    if (!*padding && spec_.batch_dimension == index) {
      return value.Error("true (the batch dimension is always padded)");
    }
    spec_.dimensions[index].padding = *padding;
  }

  void CheckDimensionNames(const YamlValue& value) {
    std::set<std::string> names;
    for (const DimensionSpec& dimension : spec_.dimensions) {
      if (!names.insert(dimension.name).second) {
        value.Error("different names",
                    absl::StrCat(dimension.name, " for two dimensions"));
      }
    }
  }

  // "input_ids.1": the dimension at an input's axis.
  std::optional<int> FindAxis(const YamlValue& value) const {
    std::vector<std::string> known;
    for (const InputSpec& input : spec_.inputs) {
      for (size_t axis = 0; axis < input.dims.size(); ++axis) {
        const auto size = input.dims[axis].AsAffine();
        if (!size) continue;
        known.push_back(absl::StrCat(input.name, ".", axis));
        if (known.back() == value.text()) return size->dimension;
      }
    }
    value.Error(known.empty()
                    ? "no dimensions (every size of this program is fixed)"
                    : absl::StrCat("a dynamic axis (one of ",
                                   absl::StrJoin(known, ", "), ")"));
    return std::nullopt;
  }

  void ReadParity(const YamlValue& value) {
    const auto entries = value.Map(
        {"rtol", "atol", "rms", "cosine", "argmax", "cases", "recorded"});
    if (!entries) return;
    const auto read = [](const YamlValue& field, double& to) {
      const std::optional<double> number = field.Number();
      if (!number) return;
      if (!(*number >= 0 && *number <= 1)) {
        return field.Error("a number from 0 to 1");
      }
      to = *number;
    };
    for (const auto& [name, field] : *entries) {
      if (name == "rtol") read(field, spec_.parity.rtol);
      if (name == "atol") read(field, spec_.parity.atol);
      if (name == "rms") read(field, spec_.parity.rms);
      if (name == "cosine") read(field, spec_.parity.cosine);
      if (name == "argmax") read(field, spec_.parity.argmax);
      if (name == "cases") field.ReadInt(1, 64, spec_.parity.cases);
      if (name == "recorded") field.ReadInt(0, 64, spec_.parity.recorded);
    }
  }

  void ReadMemory(const YamlValue& value) {
    const auto entries = value.Map({"keep"});
    if (!entries) return;
    for (const auto& [name, field] : *entries) {
      spec_.keep_in_memory = field.Bool().value_or(false);
    }
  }

  void ReadMaxBatch(const YamlValue& value) {
    if (spec_.ragged()) {
      spec_.max_ragged_requests = value.Int(1, MostRaggedRequests(spec_))
                                      .value_or(spec_.max_ragged_requests);
      return;
    }
    if (!spec_.batch_dimension) {
      if (value.text() == "0") return;
      return value.Error(
          "nothing (the program has no batch dimension: one dimension that is "
          "axis 0 of every input and output)");
    }
    DimensionSpec& batch = spec_.dimensions[*spec_.batch_dimension];
    if (value.text() == "0") {
      // A dimension as any other, along which nothing is padded or put
      // together.
      batch.padding = false;
      spec_.batch_dimension.reset();
      return;
    }
    if (const auto number = value.Int(batch.min, batch.max)) {
      max_batch_ = number;
    }
  }

  void ReadBuckets(const YamlValue& value) {
    if (value.is_list()) return ReadBucketList(value);
    if (!value.is_map()) {
      return value.Error(
          "auto, a map of dimensions to sizes, or a list of buckets");
    }
    const auto entries = value.Map(spec_.DimensionNames());
    std::vector<std::vector<int64_t>> sizes = DefaultSizes(spec_, max_batch_);
    for (const auto& [name, entry] : *entries) {
      const int index = DimensionIndex(name);
      sizes[index].clear();
      const auto elements = entry.List();
      if (!elements) return;
      if (elements->empty()) return entry.Error("at least one size");
      for (const YamlValue& element : *elements) {
        const auto size = ReadSize(element, index);
        if (!size) return;
        if (std::find(sizes[index].begin(), sizes[index].end(), *size) !=
            sizes[index].end()) {
          return element.Error("every size once");
        }
        sizes[index].push_back(*size);
      }
    }
    std::optional<std::vector<ShapeBucket>> buckets = Product(sizes);
    if (!buckets) {
      return value.Error(absl::StrCat("at most ", kMaxBuckets, " buckets"),
                         "more");
    }
    spec_.buckets = *std::move(buckets);
  }

  void ReadBucketList(const YamlValue& value) {
    const std::vector<YamlValue> elements = *value.List();
    if (elements.size() > kMaxBuckets) {
      return value.Error(absl::StrCat("at most ", kMaxBuckets, " buckets"));
    }
    const std::vector<std::string> names = spec_.DimensionNames();
    for (const YamlValue& element : elements) {
      const auto entries = element.Map(names);
      if (!entries) continue;
      ShapeBucket bucket;
      bucket.sizes.resize(names.size());
      size_t read = 0;
      for (const auto& [name, entry] : *entries) {
        const int index = DimensionIndex(name);
        if (const auto size = ReadSize(entry, index)) {
          bucket.sizes[index] = *size;
          ++read;
        }
      }
      if (entries->size() != names.size()) {
        element.Error(
            absl::StrCat("a size for each of ", absl::StrJoin(names, ", ")));
      } else if (read == names.size()) {
        if (std::find(spec_.buckets.begin(), spec_.buckets.end(), bucket) !=
            spec_.buckets.end()) {
          element.Error("every bucket once", BucketName(bucket, names));
        }
        spec_.buckets.push_back(std::move(bucket));
      }
    }
  }

  std::optional<int64_t> ReadSize(const YamlValue& value, int index) const {
    const DimensionSpec& dimension = spec_.dimensions[index];
    const auto size = value.Int(dimension.min, dimension.max);
    if (size && spec_.batch_dimension == index && max_batch_ &&
        *size > *max_batch_) {
      value.Error(absl::StrCat("at most max_batch_size, ", *max_batch_));
      return std::nullopt;
    }
    return size;
  }

  int DimensionIndex(const std::string& name) const {
    for (size_t i = 0; i < spec_.dimensions.size(); ++i) {
      if (spec_.dimensions[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }

  void FillBuckets(const YamlValue& root) {
    std::optional<std::vector<ShapeBucket>> buckets =
        Product(DefaultSizes(spec_, max_batch_));
    if (buckets) {
      spec_.buckets = *std::move(buckets);
    } else {
      root.Error("buckets (too many dimensions for default ones)", "none");
    }
  }

  // Every bucket has room for all requests that a ragged batch may have.
  void FitRequests() {
    if (!spec_.ragged()) return;
    std::vector<ShapeBucket> buckets;
    for (ShapeBucket& bucket : spec_.buckets) {
      for (size_t i = 0; i < bucket.sizes.size(); ++i) {
        const auto size = spec_.SizeOfRequests(static_cast<int>(i));
        bucket.sizes[i] = size.value_or(bucket.sizes[i]);
      }
      if (std::find(buckets.begin(), buckets.end(), bucket) == buckets.end()) {
        buckets.push_back(std::move(bucket));
      }
    }
    spec_.buckets = std::move(buckets);
  }

  void FillMaxBatch() {
    if (!spec_.batch_dimension) return;
    const int index = *spec_.batch_dimension;
    const DimensionSpec& batch = spec_.dimensions[index];
    int64_t largest = 0;
    for (const ShapeBucket& bucket : spec_.buckets) {
      largest = std::max(largest, bucket.sizes[index]);
    }
    if (largest == 0) largest = std::max(kDefaultMaxBatch, batch.min);
    spec_.max_batch_size = max_batch_.value_or(std::min(largest, batch.max));
  }

  ModelSpec& spec_;
  const std::string folder_;
  std::optional<int64_t> max_batch_;
  YamlValue::Entries entries_;
};

}  // namespace

absl::Status ApplyModelYaml(std::string_view yaml, const std::string& yaml_path,
                            ModelSpec& spec) {
  ASSIGN_OR_RETURN(const YAML::Node document, ParseYaml(yaml, yaml_path));
  YamlErrors errors(yaml_path);
  ModelSpec edited = spec;
  const std::string folder =
      std::filesystem::path(yaml_path).parent_path().string();
  SpecEditor(edited, folder).Apply(YamlValue(document, "", errors));
  RETURN_IF_ERROR(errors.status());
  spec = std::move(edited);
  return absl::OkStatus();
}

}  // namespace stoker
