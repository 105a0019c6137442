#include "loadtest/generator/arrivals.h"

#include <algorithm>
#include <utility>

namespace stoker::loadtest {
namespace {

constexpr double kSecond = 1e9;

}  // namespace

Arrivals Arrivals::Constant(double rate_per_second) {
  return {Kind::kConstant, rate_per_second, 0};
}

Arrivals Arrivals::Poisson(double rate_per_second, uint64_t seed) {
  return {Kind::kPoisson, rate_per_second, seed};
}

Arrivals Arrivals::Recorded(std::vector<int64_t> offsets_ns, double speed) {
  Arrivals arrivals(Kind::kRecorded, 0, 0);
  const auto count = static_cast<double>(offsets_ns.size());
  const auto span = static_cast<double>(offsets_ns.back() - offsets_ns.front());
  // A record of one request, or of a single burst, is repeated every second.
  arrivals.rate_ =
      (span > 0 ? (count - 1) / span : count / kSecond) * kSecond * speed;
  arrivals.offsets_ns_ = std::move(offsets_ns);
  arrivals.speed_ = speed;
  return arrivals;
}

int64_t Arrivals::NextNs() {
  const int64_t index = count_++;
  switch (kind_) {
    case Kind::kConstant:
      return static_cast<int64_t>(static_cast<double>(index) * kSecond / rate_);
    case Kind::kPoisson:
      time_ns_ += random_.Exponential() * kSecond / rate_;
      return static_cast<int64_t>(time_ns_);
    case Kind::kRecorded:
      break;
  }
  const auto length = static_cast<int64_t>(offsets_ns_.size());
  const int64_t round = index / length;
  const auto since_first =
      static_cast<double>(offsets_ns_[index % length] - offsets_ns_[0]);
  const double round_ns = static_cast<double>(length) * kSecond / rate_;
  const double first_ns =
      static_cast<double>(std::max<int64_t>(offsets_ns_[0], 0));
  return static_cast<int64_t>((first_ns + since_first) / speed_ +
                              static_cast<double>(round) * round_ns);
}

}  // namespace stoker::loadtest
