#include "models/warmup_plan.h"

#include "absl/strings/str_cat.h"

namespace stoker {
namespace {

// Changes whenever compiler/ may make other code from the same program; equal
// to RECIPE in compiler/job.py, which refuses a job of another recipe.
constexpr char kRecipe[] = "2";

KeyFactors MakeFactors(const ModelSpec& spec, const ShapeBucket& bucket,
                       int threads, const CpuTarget& target,
                       const std::string& torch_version) {
  KeyFactors factors = {
      {"schema", "1"},
      {"recipe", kRecipe},
      {"graph", spec.program_digest},
      {"torch", torch_version},
      {"device", "cpu"},
      {"cpu.march", target.march},
      {"cpu.simdlen", absl::StrCat(target.simdlen)},
      {"cpu.threads", absl::StrCat(threads)},
  };
  for (size_t i = 0; i < bucket.sizes.size(); ++i) {
    factors[absl::StrCat("size.", spec.dimensions[i].symbol)] =
        absl::StrCat(bucket.sizes[i]);
  }
  return factors;
}

}  // namespace

std::vector<WarmupStep> MakeWarmupPlan(const ModelSpec& spec, int threads,
                                       const CpuTarget& target,
                                       const std::string& torch_version) {
  const std::vector<std::string> names = spec.DimensionNames();
  std::vector<WarmupStep> plan;
  for (size_t b = 0; b < spec.buckets.size(); ++b) {
    const ShapeBucket& bucket = spec.buckets[b];
    const KeyFactors factors =
        MakeFactors(spec, bucket, threads, target, torch_version);
    const ArtifactKey key(factors);
    const std::string name = BucketName(bucket, names);
    std::map<std::string, int64_t> sizes;
    for (size_t i = 0; i < bucket.sizes.size(); ++i) {
      sizes[spec.dimensions[i].symbol] = bucket.sizes[i];
    }
    plan.push_back({static_cast<int>(b),
                    name,
                    {key, factors, spec.Label(), name, spec.program_path, sizes,
                     threads, target.march, target.simdlen}});
  }
  return plan;
}

}  // namespace stoker
