#include "planning/warmup_plan.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "program/operator_libraries.h"

namespace stoker {
namespace {

// TorchInductor's options that change code, as JSON. The compile worker takes
// them from here.
constexpr std::pair<const char*, const char*> kInductorOptions[] = {
    // The weights are bound when the artifact is opened, under their own names
    // and unchanged.
    {"aot_inductor.package_constants_in_so", "false"},
    {"aot_inductor.use_runtime_constant_folding", "false"},
    {"always_keep_tensor_constants", "true"},
    {"joint_graph_constant_folding", "false"},
    {"freezing", "false"},
    // The wrapper only allocates and calls kernels. MiniLM's costs 0.4 to 3 s
    // more to build with O1, and runs no faster.
    {"aot_inductor.compile_wrapper_opt_level", "\"O0\""},
};

const char* PrecisionName(ComputePrecision precision) {
  switch (precision) {
    case ComputePrecision::kFloat32:
      return "float32";
    case ComputePrecision::kBfloat16:
      return "bfloat16";
    case ComputePrecision::kFloat16:
      return "float16";
    case ComputePrecision::kTf32:
      return "tf32";
    case ComputePrecision::kInt8:
      return "float32";  // the same code, with other weights
  }
  return "?";
}

// What is as usual adds nothing: levers that came later left old keys as they
// were.
void AddLevers(const CompileSpec& spec, KeyFactors& factors) {
  const std::string precision = PrecisionName(spec.precision);
  if (precision != "float32") factors["precision"] = precision;
  if (spec.deterministic) factors["inductor.deterministic"] = "true";
  if (!spec.passes_digest.empty()) factors["passes"] = spec.passes_digest;
  for (const auto& [option, value] : spec.options) {
    factors[absl::StrCat("inductor.", option)] = value;
  }
}

// Which of several equal GPUs it is doesn't matter.
void AddGpu(const Toolchain& toolchain, KeyFactors& factors) {
  const GpuTarget gpu = toolchain.gpu.value_or(GpuTarget{});
  factors["cuda.arch"] = gpu.arch;
  factors["cuda.sms"] = absl::StrCat(gpu.sms);
  factors["cuda.memory_gib"] = absl::StrCat(gpu.memory_gib);
  factors["cuda.driver"] = gpu.driver;
  factors["cuda.toolkit"] = toolchain.cuda;
  factors["triton"] = toolchain.triton;
  // The wrapper launches every kernel there.
  factors["inductor.aot_inductor.compile_wrapper_opt_level"] = "\"O1\"";
}

// Whose bytes are what an operator library's are in the key.
std::string OperatorsFactor(const std::string& library) {
  return absl::StrCat("operators.", library);
}

// All that can change the code, and nothing else. The C library is no factor:
// no code is taken from it, and what was linked against a newer one than here
// fails to load and is compiled anew.
KeyFactors MakeFactors(const ModelSpec& spec, const ShapeBucket& bucket,
                       const Toolchain& toolchain) {
  KeyFactors factors = {
      {"schema", "2"},
      {"recipe", toolchain.recipe},
      {"graph", spec.program_digest},
      {"torch", toolchain.torch},
      {"torch.git", toolchain.torch_git},
      {"device", spec.on_gpu() ? "cuda" : "cpu"},
      {"cpu.march", toolchain.cpu.march},
      {"cxx", toolchain.cxx},
      {"python", toolchain.python},
      {"sympy", toolchain.sympy},
  };
  for (const auto& [option, value] : kInductorOptions) {
    factors[absl::StrCat("inductor.", option)] = value;
  }
  if (spec.on_gpu()) {
    AddGpu(toolchain, factors);
  } else {
    factors["cpu.simdlen"] = absl::StrCat(toolchain.cpu.simdlen);
  }
  AddLevers(spec.compile, factors);
  for (const auto& [name, digest] : spec.operator_libraries) {
    factors[OperatorsFactor(name)] = digest;
  }
  for (size_t i = 0; i < bucket.sizes.size(); ++i) {
    if (bucket.sizes[i] == kAnySize) continue;
    factors[absl::StrCat("size.", spec.dimensions[i].symbol)] =
        absl::StrCat(bucket.sizes[i]);
  }
  return factors;
}

// Whether code of any of the forms can be for the bucket's sizes.
bool MayBeTaken(const ShapeBucket& bucket,
                const std::vector<ShapeBucket>& forms) {
  const auto takes = [](int64_t form, int64_t size) {
    return form == kAnySize ? size >= kLeastDynamicSize : size == form;
  };
  return absl::c_any_of(forms, [&](const ShapeBucket& form) {
    return absl::c_equal(form.sizes, bucket.sizes, takes);
  });
}

}  // namespace

std::vector<ShapeBucket> SizesOfForms(const ModelSpec& spec) {
  std::vector<ShapeBucket> forms;
  if (spec.compile.dynamic == DynamicForms::kNone || spec.dimensions.empty()) {
    return forms;
  }
  ShapeBucket any;
  any.sizes.assign(spec.dimensions.size(), kAnySize);
  forms.push_back(any);
  if (!spec.batch_dimension.has_value() || spec.dimensions.size() == 1) {
    return forms;
  }
  const auto batch = static_cast<size_t>(*spec.batch_dimension);
  if (spec.dimensions[batch].min > 1) return forms;
  forms.push_back(any);
  forms.back().sizes[batch] = 1;
  return forms;
}

std::vector<WarmupStep> MakeWarmupPlan(const ModelSpec& spec,
                                       const Toolchain& toolchain,
                                       const std::string& device) {
  const std::vector<std::string> names = spec.DimensionNames();
  std::vector<ShapeBucket> all = spec.buckets;
  const std::vector<ShapeBucket> forms = SizesOfForms(spec);
  all.insert(all.end(), forms.begin(), forms.end());
  std::vector<WarmupStep> plan;
  for (size_t b = 0; b < all.size(); ++b) {
    const ShapeBucket& bucket = all[b];
    const KeyFactors factors = MakeFactors(spec, bucket, toolchain);
    const ArtifactKey key(factors);
    const std::string name = BucketName(bucket, names);
    std::map<std::string, int64_t> sizes;
    for (size_t i = 0; i < bucket.sizes.size(); ++i) {
      if (bucket.sizes[i] == kAnySize) continue;
      sizes[spec.dimensions[i].symbol] = bucket.sizes[i];
    }
    std::map<std::string, std::string> attest = {
        {"program", spec.content_digest},
        {"recipe", factors.at("recipe")},
        {"python", factors.at("python")},
        {"sympy", factors.at("sympy")},
        {"torch.git", factors.at("torch.git")}};
    std::map<std::string, std::string> operators;
    for (const auto& [library, digest] : spec.operator_libraries) {
      attest[OperatorsFactor(library)] = digest;
      if (const OperatorLibrary* found = FindOperatorLibrary(library)) {
        operators[library] = found->path;
      }
    }
    plan.push_back({static_cast<int>(b),
                    bucket,
                    name,
                    {.key = key,
                     .factors = factors,
                     .model = spec.Label(),
                     .bucket = name,
                     .program_path = spec.HeldPath(),
                     .program_name = spec.program_path,
                     .program_file = spec.program_file,
                     .attest = attest,
                     .passes_path = spec.compile.passes_path,
                     .operator_libraries = operators,
                     .sizes = sizes,
                     .march = toolchain.cpu.march,
                     .simdlen = toolchain.cpu.simdlen,
                     .device = device},
                    spec.compile.dynamic == DynamicForms::kBeside ||
                        IsDynamic(bucket) || !MayBeTaken(bucket, forms)});
  }
  return plan;
}

}  // namespace stoker
