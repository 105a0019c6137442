// Which sizes the dynamic dimensions of a request have: distributions that are
// drawn from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "loadtest/generator/random.h"

namespace stoker::loadtest {

struct FixedSize {
  int64_t size = 1;
};
// Every integer of [min, max] with the same chance.
struct UniformSizes {
  int64_t min = 1, max = 1;
};
// exp(N(log median, sigma)), rounded, then drawn again while it is outside of
// [min, max]: lengths of texts look like this.
struct LogNormalSizes {
  double median = 1, sigma = 1;
  int64_t min = 1, max = 1;
};
// Sizes with their weights, which need not add up to 1.
struct WeightedSizes {
  std::vector<std::pair<int64_t, double>> weights;
};
using SizeDistribution =
    std::variant<FixedSize, UniformSizes, LogNormalSizes, WeightedSizes>;

// OK, or INVALID_ARGUMENT with what is wrong: sizes below 0, an empty or
// reversed range, a range that a log-normal practically never hits.
absl::Status CheckDistribution(const SizeDistribution& distribution);

// The distribution has passed CheckDistribution.
int64_t DrawSize(const SizeDistribution& distribution, Random& random);

// As on a command line: "32", "uniform:8:128", "lognormal:24:0.6:8:128"
// (median, sigma, min, max) or "weighted:16=3:32=1". INVALID_ARGUMENT says what
// was expected.
absl::StatusOr<SizeDistribution> ParseDistribution(std::string_view text);

// One dimension of the model as its requests vary it: the axes of the inputs
// that share its size, each "<input>.<axis>".
struct MixedDimension {
  std::string name;
  std::vector<std::string> axes;
  SizeDistribution sizes;
};

}  // namespace stoker::loadtest
