#include "repository/default_buckets.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace stoker {
namespace {

constexpr int64_t kDefaultBatch = 8;
constexpr int64_t kUnboundedSize = 512;
constexpr size_t kMaxSizes = 4;
constexpr int64_t kRatio = 4;
constexpr size_t kMaxProduct = 16;

std::vector<int64_t> BatchSizes(const DimensionSpec& batch,
                                std::optional<int64_t> max_batch) {
  const int64_t most =
      std::min({kDefaultBatch, batch.max, max_batch.value_or(batch.max)});
  const int64_t least = batch.min;
  if (most <= least) return {least};
  return {least, most};
}

std::vector<int64_t> GeometricSizes(const DimensionSpec& dimension,
                                    size_t count) {
  const bool bounded = dimension.max < std::numeric_limits<int64_t>::max();
  int64_t size =
      bounded ? dimension.max : std::max(kUnboundedSize, dimension.min);
  std::vector<int64_t> sizes;
  while (sizes.size() < count && size >= std::max<int64_t>(1, dimension.min)) {
    sizes.push_back(size);
    size /= kRatio;
  }
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

}  // namespace

std::vector<std::vector<int64_t>> DefaultSizes(
    const ModelSpec& spec, std::optional<int64_t> max_batch) {
  std::vector<std::vector<int64_t>> sizes;
  for (size_t count = kMaxSizes; count >= 1; --count) {
    sizes.clear();
    size_t product = 1;
    for (size_t i = 0; i < spec.dimensions.size(); ++i) {
      const DimensionSpec& dimension = spec.dimensions[i];
      const auto index = static_cast<int>(i);
      if (const auto size = spec.SizeOfRequests(index)) {
        sizes.push_back({*size});
      } else if (spec.batch_dimension == index && !spec.ragged()) {
        sizes.push_back(BatchSizes(dimension, max_batch));
      } else {
        sizes.push_back(GeometricSizes(dimension, count));
      }
      product = std::min(product * sizes.back().size(), kMaxProduct + 1);
    }
    if (product <= kMaxProduct) break;
  }
  return sizes;
}

std::optional<std::vector<ShapeBucket>> Product(
    const std::vector<std::vector<int64_t>>& sizes) {
  std::vector<ShapeBucket> buckets = {ShapeBucket{}};
  for (const std::vector<int64_t>& choices : sizes) {
    if (buckets.size() * choices.size() > kMaxBuckets) return std::nullopt;
    std::vector<ShapeBucket> longer;
    for (const ShapeBucket& bucket : buckets) {
      for (int64_t size : choices) {
        longer.push_back(bucket);
        longer.back().sizes.push_back(size);
      }
    }
    buckets = std::move(longer);
  }
  return buckets;
}

}  // namespace stoker
