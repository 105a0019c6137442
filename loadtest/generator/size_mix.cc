#include "loadtest/generator/size_mix.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/absl_view.h"
#include "base/status_macros.h"

namespace stoker::loadtest {
namespace {

// So that drawing again ends: at least this share of a log-normal's draws has
// to lie in its range.
constexpr double kLeastShareInRange = 1e-3;

absl::Status CheckRange(int64_t min, int64_t max) {
  if (min >= 0 && min <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected sizes 0 <= min <= max, got ", min, " to ", max));
}

double NormalBelow(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

struct Checker {
  absl::Status operator()(const FixedSize& fixed) const {
    return CheckRange(fixed.size, fixed.size);
  }
  absl::Status operator()(const UniformSizes& uniform) const {
    return CheckRange(uniform.min, uniform.max);
  }
  absl::Status operator()(const LogNormalSizes& normal) const {
    RETURN_IF_ERROR(CheckRange(normal.min, normal.max));
    if (!(normal.median > 0) || !(normal.sigma > 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected median and sigma above 0, got ", normal.median,
                       " and ", normal.sigma));
    }
    const auto standard = [&](double size) {
      return size <= 0
                 ? -INFINITY
                 : (std::log(size) - std::log(normal.median)) / normal.sigma;
    };
    const double share =
        NormalBelow(standard(static_cast<double>(normal.max) + 0.5)) -
        NormalBelow(standard(static_cast<double>(normal.min) - 0.5));
    if (share >= kLeastShareInRange) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a range that the distribution hits, got ", normal.min, " to ",
        normal.max, " around a median of ", normal.median));
  }
  absl::Status operator()(const WeightedSizes& weighted) const {
    double sum = 0;
    for (const auto& [size, weight] : weighted.weights) {
      RETURN_IF_ERROR(CheckRange(size, size));
      if (!(weight >= 0) || !std::isfinite(weight)) {
        return absl::InvalidArgumentError(
            absl::StrCat("expected weights from 0 up, got ", weight));
      }
      sum += weight;
    }
    if (sum > 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "expected at least one size with a weight above 0");
  }
};

struct Drawer {
  Random& random;

  int64_t operator()(const FixedSize& fixed) const { return fixed.size; }
  int64_t operator()(const UniformSizes& uniform) const {
    return random.Integer(uniform.min, uniform.max);
  }
  int64_t operator()(const LogNormalSizes& normal) const {
    while (true) {
      const double size =
          std::round(normal.median * std::exp(normal.sigma * random.Normal()));
      if (size >= static_cast<double>(normal.min) &&
          size <= static_cast<double>(normal.max)) {
        return static_cast<int64_t>(size);
      }
    }
  }
  int64_t operator()(const WeightedSizes& weighted) const {
    double sum = 0;
    for (const auto& [size, weight] : weighted.weights) sum += weight;
    double left = random.Unit() * sum;
    int64_t drawn = 0;
    for (const auto& [size, weight] : weighted.weights) {
      if (weight == 0) continue;
      drawn = size;
      left -= weight;
      if (left < 0) break;
    }
    return drawn;
  }
};

std::optional<SizeDistribution> ParseParts(
    const std::vector<std::string>& parts) {
  int64_t min = 0, max = 0;
  const auto range_at = [&](size_t at) {
    return absl::SimpleAtoi(parts[at], &min) &&
           absl::SimpleAtoi(parts[at + 1], &max);
  };
  if (parts.size() == 1 && absl::SimpleAtoi(parts[0], &min)) {
    return FixedSize{min};
  }
  if (parts.size() == 3 && parts[0] == "uniform" && range_at(1)) {
    return UniformSizes{min, max};
  }
  LogNormalSizes normal;
  if (parts.size() == 5 && parts[0] == "lognormal" &&
      absl::SimpleAtod(parts[1], &normal.median) &&
      absl::SimpleAtod(parts[2], &normal.sigma) && range_at(3)) {
    normal.min = min;
    normal.max = max;
    return normal;
  }
  if (parts.size() < 2 || parts[0] != "weighted") return std::nullopt;
  WeightedSizes weighted;
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::vector<std::string> pair = absl::StrSplit(parts[i], '=');
    double weight = 0;
    if (pair.size() != 2 || !absl::SimpleAtoi(pair[0], &min) ||
        !absl::SimpleAtod(pair[1], &weight)) {
      return std::nullopt;
    }
    weighted.weights.emplace_back(min, weight);
  }
  return weighted;
}

}  // namespace

absl::Status CheckDistribution(const SizeDistribution& distribution) {
  return std::visit(Checker{}, distribution);
}

int64_t DrawSize(const SizeDistribution& distribution, Random& random) {
  return std::visit(Drawer{random}, distribution);
}

absl::StatusOr<SizeDistribution> ParseDistribution(std::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(Absl(text), ':');
  const std::optional<SizeDistribution> parsed = ParseParts(parts);
  if (!parsed) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a size, uniform:MIN:MAX, lognormal:MEDIAN:SIGMA:MIN:MAX or "
        "weighted:SIZE=WEIGHT:..., got '",
        Absl(text), "'"));
  }
  RETURN_IF_ERROR(CheckDistribution(*parsed));
  return *parsed;
}

}  // namespace stoker::loadtest
