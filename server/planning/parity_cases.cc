#include "planning/parity_cases.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "planning/warmup_plan.h"

namespace stoker {
namespace {

// What padding did to an output of unknown size can't be undone: such programs
// run in exact sizes.
bool CanBePadded(const ModelSpec& spec) {
  const DimensionSizes ones(spec.dimensions.size(), 1);
  for (const OutputSpec& output : spec.outputs) {
    for (const DimExpr& dim : output.dims) {
      if (!dim.Evaluate(ones).has_value()) return false;
    }
  }
  return true;
}

// Of a dimension, where there is no bucket to go by.
constexpr int64_t kUsualSize = 16;
// Of a run at a dimension's largest size, as a multiple of the largest bucket.
constexpr double kMostVolume = 4;

int64_t ThreeFifths(int64_t size) { return size * 3 / 5; }
int64_t OneShort(int64_t size) { return size - 1; }
int64_t Least(int64_t /*size*/) { return 1; }

int64_t Shrunk(const DimensionSpec& dimension, int64_t size,
               int64_t (*shrink)(int64_t)) {
  return std::clamp(shrink(size), std::min(dimension.min, size), size);
}

// The bucket's sizes, shrunk along every dimension that may be padded; nullopt
// when that changes nothing.
std::optional<DimensionSizes> ShrunkSizes(const ModelSpec& spec,
                                          const ShapeBucket& bucket,
                                          int64_t (*shrink)(int64_t)) {
  const std::vector<bool> paddable = Paddable(spec);
  DimensionSizes sizes = bucket.sizes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (paddable[i]) sizes[i] = Shrunk(spec.dimensions[i], sizes[i], shrink);
  }
  if (sizes == bucket.sizes) return std::nullopt;
  return sizes;
}

}  // namespace

std::vector<bool> Paddable(const ModelSpec& spec) {
  std::vector<bool> paddable;
  for (const DimensionSpec& dimension : spec.dimensions) {
    paddable.push_back(dimension.padding);
  }
  if (spec.batch_dimension.has_value()) {
    paddable[static_cast<size_t>(*spec.batch_dimension)] = true;
  }
  return paddable;
}

std::vector<CaseSizes> ParityCases(const ModelSpec& spec,
                                   const ShapeBucket& bucket) {
  std::vector<CaseSizes> padded;
  if (CanBePadded(spec)) {
    for (const auto shrink : {OneShort, Least}) {
      auto sizes = ShrunkSizes(spec, bucket, shrink);
      if (!sizes.has_value()) continue;
      if (!padded.empty() && padded.back().sizes == *sizes) continue;
      padded.push_back({0, *std::move(sizes), true});
    }
  }
  std::vector<CaseSizes> cases;
  for (size_t i = 0;
       i < std::max(static_cast<size_t>(spec.parity.cases), padded.size());
       ++i) {
    if (i < static_cast<size_t>(spec.parity.cases)) {
      cases.push_back({0, bucket.sizes, false});
    }
    if (i < padded.size()) cases.push_back(std::move(padded[i]));
  }
  for (size_t i = 0; i < cases.size(); ++i) cases[i].seed = i;
  return cases;
}

std::vector<DimensionSizes> SizesOfForm(const ModelSpec& spec,
                                        const ShapeBucket& form) {
  DimensionSizes low, high, middle;
  for (size_t i = 0; i < form.sizes.size(); ++i) {
    const DimensionSpec& dimension = spec.dimensions[i];
    if (form.sizes[i] != kAnySize) {
      for (DimensionSizes* sizes : {&low, &middle, &high}) {
        sizes->push_back(form.sizes[i]);
      }
      continue;
    }
    const int64_t least =
        std::clamp(kLeastDynamicSize, dimension.min, dimension.max);
    int64_t most = least;
    for (const ShapeBucket& bucket : spec.buckets) {
      most = std::max(most, bucket.sizes[i]);
    }
    if (most == least) most = std::clamp(kUsualSize, least, dimension.max);
    low.push_back(least);
    high.push_back(most);
    middle.push_back(std::llround(
        std::sqrt(static_cast<double>(least) * static_cast<double>(most))));
  }
  std::vector<DimensionSizes> all = {middle, low, high};
  for (size_t i = 0; i < form.sizes.size(); ++i) {
    if (form.sizes[i] != kAnySize) continue;
    DimensionSizes extreme = low;
    const double others = Volume(low) / static_cast<double>(low[i]);
    const auto affordable =
        static_cast<int64_t>(kMostVolume * Volume(high) / others);
    extreme[i] = std::min(spec.dimensions[i].max, affordable);
    if (extreme[i] > high[i]) all.push_back(std::move(extreme));
  }
  return all;
}

bool Fits(const ModelSpec& spec, const DimensionSizes& sizes,
          const ShapeBucket& bucket) {
  if (sizes == bucket.sizes) return true;
  if (!CanBePadded(spec)) return false;
  const std::vector<bool> paddable = Paddable(spec);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > bucket.sizes[i]) return false;
    if (sizes[i] < bucket.sizes[i] && !paddable[i]) return false;
  }
  return true;
}

std::vector<PaddedSizes> PaddedAlongEach(const ModelSpec& spec,
                                         const ShapeBucket& bucket) {
  std::vector<PaddedSizes> all;
  if (!CanBePadded(spec)) return all;
  const std::vector<bool> paddable = Paddable(spec);
  for (size_t i = 0; i < bucket.sizes.size(); ++i) {
    if (!paddable[i]) continue;
    PaddedSizes one{static_cast<int>(i), bucket.sizes};
    one.sizes[i] = Shrunk(spec.dimensions[i], bucket.sizes[i], ThreeFifths);
    if (one.sizes != bucket.sizes) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace stoker
