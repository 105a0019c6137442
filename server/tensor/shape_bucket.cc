#include "tensor/shape_bucket.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace stoker {

bool IsDynamic(const ShapeBucket& bucket) {
  return absl::c_linear_search(bucket.sizes, kAnySize);
}

double Volume(absl::Span<const int64_t> sizes) {
  double volume = 1;
  for (const int64_t size : sizes) volume *= static_cast<double>(size);
  return volume;
}

std::string BucketName(const ShapeBucket& bucket,
                       absl::Span<const std::string> dimension_names) {
  if (bucket.sizes.empty()) return "static";
  std::string name;
  for (size_t i = 0; i < bucket.sizes.size(); ++i) {
    absl::StrAppend(&name, i == 0 ? "" : ",",
                    i < dimension_names.size() ? dimension_names[i] : "?", "=");
    if (bucket.sizes[i] == kAnySize) {
      absl::StrAppend(&name, "any");
    } else {
      absl::StrAppend(&name, bucket.sizes[i]);
    }
  }
  return name;
}

BucketTable::BucketTable(std::vector<ShapeBucket> buckets,
                         std::vector<bool> paddable)
    : buckets_(std::move(buckets)), paddable_(std::move(paddable)) {}

std::optional<int> BucketTable::Match(absl::Span<const int64_t> sizes) const {
  std::optional<int> best;
  double best_volume = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const DimensionSizes& bucket = buckets_[i].sizes;
    if (bucket.size() != sizes.size()) continue;
    bool holds = true;
    for (size_t d = 0; holds && d < sizes.size(); ++d) {
      const bool may_pad = d < paddable_.size() && paddable_[d];
      holds = may_pad ? sizes[d] <= bucket[d] : sizes[d] == bucket[d];
    }
    if (!holds) continue;
    const double volume = Volume(bucket);
    if (!best || volume < best_volume) {
      best = static_cast<int>(i);
      best_volume = volume;
    }
  }
  return best;
}

}  // namespace stoker
