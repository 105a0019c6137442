#include "tensor/run_cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace stoker {
namespace {

struct Point {
  double volume;
  double seconds;
};

// Minimises the sum of ((fixed + per_element * volume) / seconds - 1)^2.
RunCost LeastSquares(const std::vector<Point>& points) {
  double ww = 0, wv = 0, vv = 0, w1 = 0, v1 = 0;
  for (const Point& point : points) {
    const double w = 1 / point.seconds;
    const double v = point.volume / point.seconds;
    ww += w * w;
    wv += w * v;
    vv += v * v;
    w1 += w;
    v1 += v;
  }
  RunCost cost;
  const double determinant = ww * vv - wv * wv;
  cost.per_element = (ww * v1 - wv * w1) / determinant;
  cost.fixed = (vv * w1 - wv * v1) / determinant;
  if (cost.fixed < 0) {
    cost.fixed = 0;
    cost.per_element = v1 / vv;
  }
  return cost;
}

}  // namespace

double Volume(absl::Span<const int64_t> sizes) {
  double volume = 1;
  for (const int64_t size : sizes) volume *= static_cast<double>(size);
  return volume;
}

RunCost FitRunCost(absl::Span<const MeasuredRun> runs) {
  std::vector<Point> points;
  double least = 0, most = 0;
  for (const MeasuredRun& run : runs) {
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
  const bool tells_parts = most > least * 1.01;
  if (tells_parts) cost = LeastSquares(points);
  // Runs that take no longer with more elements would make every size equally
  // good.
  if (!tells_parts || !(cost.per_element > 0)) {
    double sum = 0;
    cost = {.fixed = kAssumedLaunchElements, .per_element = 1};
    for (const Point& point : points) {
      sum += point.seconds / (cost.fixed + point.volume);
    }
    const double scale = sum / static_cast<double>(points.size());
    cost.fixed *= scale;
    cost.per_element = scale;
  }
  cost.worst_error = 0;
  for (const Point& point : points) {
    const double estimate = cost.fixed + cost.per_element * point.volume;
    cost.worst_error =
        std::max(*cost.worst_error, std::abs(estimate / point.seconds - 1));
  }
  return cost;
}

}  // namespace stoker
