#include "metrics/metric_snapshot.h"

#include <algorithm>
#include <utility>

namespace stoker {

bool Carries(const Labels& have, const Labels& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& label) {
    const auto found = have.find(label.first);
    return found != have.end() && found->second == label.second;
  });
}

MetricSnapshot::MetricSnapshot(SeriesByName series)
    : series_(std::move(series)) {}

std::vector<const MetricSnapshot::Series*> MetricSnapshot::Find(
    std::string_view name, const Labels& labels) const {
  std::vector<const Series*> found;
  const auto [begin, end] = series_.equal_range(name);
  for (auto it = begin; it != end; ++it) {
    if (Carries(it->second.labels, labels)) found.push_back(&it->second);
  }
  return found;
}

double MetricSnapshot::Sum(std::string_view name, const Labels& labels) const {
  double sum = 0;
  for (const Series* series : Find(name, labels)) sum += series->value;
  return sum;
}

std::map<double, double> MetricSnapshot::Buckets(std::string_view name,
                                                 const Labels& labels) const {
  std::map<double, double> sums;
  for (const Series* series : Find(name, labels)) {
    for (const auto& [bound, count] : series->buckets) sums[bound] += count;
  }
  return sums;
}

}  // namespace stoker
