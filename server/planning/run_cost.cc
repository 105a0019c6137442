#include "planning/run_cost.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace stoker {
namespace {

constexpr size_t kMostRuns = 200;

struct Measured {
  double volume;
  double seconds;
};

// The lower one of two.
double Median(std::vector<double> values) {
  const auto middle = values.begin() + (values.size() - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double Deviation(const RunCost& cost, const std::vector<Measured>& points) {
  double sum = 0;
  for (const Measured& point : points) {
    sum += std::abs(
        (cost.fixed + cost.per_element * point.volume) / point.seconds - 1);
  }
  return sum;
}

// Per element more than 0; nullopt when there is no such line.
std::optional<RunCost> LeastDeviation(const std::vector<Measured>& points) {
  std::optional<RunCost> best;
  double least = 0;
  const auto attempt = [&](double fixed, double per_element) {
    if (!(fixed >= 0) || !(per_element > 0)) return;
    const RunCost cost{.fixed = fixed, .per_element = per_element};
    const double deviation = Deviation(cost, points);
    if (best.has_value() && deviation >= least) return;
    best = cost;
    least = deviation;
  };
  for (size_t i = 0; i < points.size(); ++i) {
    const Measured& a = points[i];
    attempt(0, a.seconds / a.volume);
    for (size_t j = 0; j < i; ++j) {
      const Measured& b = points[j];
      if (a.volume == b.volume) continue;
      const double slope = (a.seconds - b.seconds) / (a.volume - b.volume);
      attempt(a.seconds - slope * a.volume, slope);
    }
  }
  return best;
}

}  // namespace

RunCost FitRunCost(absl::Span<const MeasuredRun> runs) {
  std::vector<Measured> points;
  double least = 0, most = 0;
  for (const MeasuredRun& run : runs) {
    if (points.size() == kMostRuns) break;
    const double volume = Volume(run.sizes);
    if (!(run.seconds > 0) || !std::isfinite(run.seconds) || volume < 1) {
      continue;
    }
    least = points.empty() ? volume : std::min(least, volume);
    most = std::max(most, volume);
    points.push_back({volume, run.seconds});
  }
  RunCost cost{.fixed = kAssumedLaunchElements, .per_element = 1};
  if (points.empty()) return cost;
  if (most > least * 1.01) {
    cost = LeastDeviation(points).value_or(cost);
  } else {
    std::vector<double> scales;
    for (const Measured& point : points) {
      scales.push_back(point.seconds / (cost.fixed + point.volume));
    }
    const double scale = Median(scales);
    cost.fixed *= scale;
    cost.per_element = scale;
  }
  cost.mean_error =
      Deviation(cost, points) / static_cast<double>(points.size());
  return cost;
}

}  // namespace stoker
