#include "repository/compile_yaml.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "base/sha256.h"

namespace stoker {
namespace {

// Stoker's own business: what it sets, or says in another way.
constexpr const char* kOwnOptions[] = {
    "aot_inductor.",
    "always_keep_tensor_constants",
    "cpp.cxx",
    "cpp.dynamic_threads",
    "cpp.simdlen",
    "cpp.threads",
    "cpp.vec_isa_ok",
    "deterministic",
    "freezing",
    "joint_graph_constant_",
    "max_autotune",
    "post_grad_custom_",
    "joint_custom_",
    "pre_grad_custom_pass",
    "_pre_fusion_custom_pass",
};

bool IsOptionName(const std::string& name) {
  constexpr size_t kMostCharacters = 100;
  return !name.empty() && name.size() <= kMostCharacters &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '.';
         });
}

// As JSON, which is how keys and compile jobs carry it.
std::string Json(const YamlValue& value) {
  const nlohmann::json json = ReadJson(value.text());
  if (json.is_boolean() || json.is_number() || json.is_null()) {
    return JsonText(json);
  }
  return JsonText(value.text(), {.ascii = true});
}

void ReadOptions(const YamlValue& value, CompileSpec& spec) {
  const auto entries = value.MapOfNames();
  if (!entries) return;
  for (const auto& [name, entry] : *entries) {
    const std::string& option = name;  // clang captures no binding
    const bool own = std::any_of(std::begin(kOwnOptions), std::end(kOwnOptions),
                                 [&option](const char* prefix) {
                                   return absl::StartsWith(option, prefix);
                                 });
    if (!IsOptionName(name)) {
      entry.Error("the name of an option of TorchInductor", name);
    } else if (own) {
      entry.Error("an option that is left to you",
                  absl::StrCat(name, ", which Stoker sets"));
    } else if (entry.is_map() || entry.is_list()) {
      entry.Error("true, false, a number or a text");
    } else {
      spec.options[name] = Json(entry);
    }
  }
}

void ReadPrecision(const YamlValue& value, bool on_gpu, CompileSpec& spec) {
  using enum ComputePrecision;
  static const auto& on_cpus =
      *new std::vector<ComputePrecision>{kFloat32, kBfloat16, kInt8};
  static const auto& on_gpus =
      *new std::vector<ComputePrecision>{kFloat32, kBfloat16, kFloat16, kTf32};
  const std::string text = value.text();
  if (!on_gpu && (text == "float16" || text == "tf32")) {
    return value.Error("float32, bfloat16 or int8 (this one is for GPUs)");
  }
  if (on_gpu && text == "int8") {
    return value.Error(
        "float32, bfloat16, float16 or tf32 (this one is for CPUs)");
  }
  const std::optional<int> choice =
      on_gpu ? value.Choice({"float32", "bfloat16", "float16", "tf32"})
             : value.Choice({"float32", "bfloat16", "int8"});
  if (!choice) return;
  spec.precision = (on_gpu ? on_gpus : on_cpus)[static_cast<size_t>(*choice)];
}

void ReadPasses(const YamlValue& value, const std::string& folder,
                CompileSpec& spec) {
  const std::filesystem::path named = value.text();
  if (named.empty() || named.extension() != ".py") {
    return value.Error("a Python file, from the folder of model.yaml");
  }
  // Wherever links lead: what is beside model.yaml is the author's, the rest of
  // the host is not.
  std::error_code missing;
  const std::filesystem::path root =
      std::filesystem::weakly_canonical(folder, missing);
  const std::filesystem::path path =
      std::filesystem::weakly_canonical(root / named, missing);
  if (std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first !=
      root.end()) {
    return value.Error("a file in the folder of model.yaml");
  }
  spec.passes_path = path.string();
  absl::StatusOr<std::string> digest = Sha256File(spec.passes_path);
  if (!digest.ok()) {
    return value.Error("a file that can be read",
                       std::string(digest.status().message()));
  }
  spec.passes_digest = *std::move(digest);
}

}  // namespace

void ReadCompile(const YamlValue& value, const std::string& folder, bool on_gpu,
                 CompileSpec& spec) {
  if (!value.is_map()) {
    spec.enabled = value.Bool("true, false or a map of levers").value_or(true);
    return;
  }
  const auto entries =
      value.Map({"precision", "deterministic", "dynamic", "budget_seconds",
                 "pays_back_within", "passes", "options"});
  if (!entries) return;
  for (const auto& [name, field] : *entries) {
    if (name == "precision") {
      ReadPrecision(field, on_gpu, spec);
    } else if (name == "deterministic") {
      spec.deterministic = field.Bool().value_or(false);
    } else if (name == "dynamic") {
      const auto choice = field.Choice({"false", "true", "only", "auto"});
      spec.dynamic = static_cast<DynamicForms>(choice.value_or(0));
      // What is captured into CUDA graphs is buckets' own code.
      if (spec.dynamic == DynamicForms::kFirst && on_gpu) {
        spec.dynamic = DynamicForms::kNone;
      }
    } else if (name == "budget_seconds") {
      constexpr int64_t kDay = int64_t{24} * 3600;
      if (const auto seconds = field.Int(1, kDay)) {
        spec.budget = absl::Seconds(*seconds);
      }
    } else if (name == "pays_back_within") {
      constexpr int64_t kMost = int64_t{1} << 53;
      spec.pays_back_within = field.Int(1, kMost);
    } else if (name == "passes") {
      ReadPasses(field, folder, spec);
    } else {
      ReadOptions(field, spec);
    }
  }
}

}  // namespace stoker
