#include "planning/load_part.h"

namespace stoker {

bool HoldsPoint(const DimensionSizes& bucket, const DimensionSizes& sizes) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (bucket[d] < sizes[d]) return false;
  }
  return true;
}

std::vector<int64_t> Thin(const std::map<int64_t, double>& weights,
                          size_t most) {
  double sum = 0;
  for (const auto& [value, weight] : weights) sum += weight;
  std::vector<int64_t> kept;
  double seen = 0;
  for (const auto& [value, weight] : weights) {
    seen += weight;
    const double step = sum / static_cast<double>(most);
    if (weights.size() > most &&
        seen < step * static_cast<double>(kept.size() + 1)) {
      continue;
    }
    kept.push_back(value);
  }
  const int64_t last = weights.rbegin()->first;
  if (kept.empty() || kept.back() != last) kept.push_back(last);
  return kept;
}

}  // namespace stoker
