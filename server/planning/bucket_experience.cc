#include "planning/bucket_experience.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "nlohmann/json.hpp"
#include "planning/warmup_plan.h"
#include "promotion/verdict.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

// How much slower eager is, where that was not measured.
constexpr double kEagerFactor = 2;
constexpr char kSizeFactor[] = "size.";

// The factors of the version's keys that say nothing of the bucket.
KeyFactors FactorsOf(const ModelSpec& spec, const Toolchain& toolchain) {
  ModelSpec one = spec;
  DimensionSizes sizes(spec.dimensions.size(), 1);
  one.buckets = {{sizes}};
  return MakeWarmupPlan(one, toolchain)[0].request.factors;
}

// The bucket of an entry with these factors but for sizes; nullopt of any
// other.
std::optional<DimensionSizes> BucketOf(const Json& factors,
                                       const KeyFactors& wanted,
                                       const ModelSpec& spec) {
  if (!factors.is_object() || factors.size() != wanted.size()) {
    return std::nullopt;
  }
  for (const auto& [name, value] : wanted) {
    if (absl::StartsWith(name, kSizeFactor)) continue;
    if (TextField(factors, name.c_str()) != value) return std::nullopt;
  }
  DimensionSizes sizes;
  for (const DimensionSpec& dimension : spec.dimensions) {
    const std::string name = absl::StrCat(kSizeFactor, dimension.symbol);
    int64_t size = 0;
    if (!absl::SimpleAtoi(TextField(factors, name.c_str()), &size) ||
        size < 0) {
      return std::nullopt;
    }
    sizes.push_back(size);
  }
  return sizes;
}

}  // namespace

BucketExperience KnownBuckets(const KernelCache& cache, const ModelSpec& spec,
                              const TimedOn& here, const Toolchain& toolchain) {
  BucketExperience known;
  const KeyFactors wanted = FactorsOf(spec, toolchain);
  std::vector<MeasuredRun> compiled, eager;
  std::set<ArtifactKey> seen;
  int entries = 0, timed = 0;
  for (const CacheLayer& layer : cache.entries().layers()) {
    for (const ArtifactKey& key : layer.Keys()) {
      const auto text = layer.ReadManifest(key);
      if (!text.ok() || !seen.insert(key).second) continue;
      const Json manifest = ReadJson(*text);
      const std::optional<DimensionSizes> sizes =
          BucketOf(Field(manifest, "factors"), wanted, spec);
      if (!sizes.has_value()) continue;
      ++entries;
      known.artifact_bytes += layer.Bytes(key);
      const Json& seconds = Field(manifest, "seconds");
      if (seconds.is_number() && seconds.get<double>() > 0) {
        known.compile_seconds += seconds.get<double>();
        ++timed;
      }
      // Run times don't depend on the weights' values.
      const std::optional<Profit> profit =
          ReadProfit(cache.facts(), {key, Sha256Hex(*text)},
                     ComputePrecision::kFloat32, here);
      if (!profit.has_value() || !(profit->incumbent_seconds > 0)) continue;
      ++known.measured_buckets;
      eager.push_back({*sizes, profit->incumbent_seconds});
      // What was refused is served eager, in the bucket's size.
      compiled.push_back({*sizes, profit->worth ? profit->candidate_seconds
                                                : profit->incumbent_seconds});
    }
  }
  if (entries > 0) known.artifact_bytes /= entries;
  if (timed > 0) known.compile_seconds /= timed;
  known.compiled = FitRunCost(compiled);
  known.eager = FitRunCost(eager);
  // What isn't faster isn't promoted: where eager seems to be, that is noise.
  known.eager.fixed = std::max(known.eager.fixed, known.compiled.fixed);
  known.eager.per_element =
      std::max(known.eager.per_element, known.compiled.per_element);
  if (!known.eager.measured()) {
    known.eager.fixed = known.compiled.fixed * kEagerFactor;
    known.eager.per_element = known.compiled.per_element * kEagerFactor;
  }
  return known;
}

}  // namespace stoker
