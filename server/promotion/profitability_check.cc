#include "promotion/profitability_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

// Fewer can't reach the confidence: their extremes are all there is.
constexpr size_t kFewestForInterval = 11;
// Seconds; of a longer run a first one shows no more than the next.
constexpr double kShortRun = 8e-3;
constexpr double kNormalQuantile = 3;  // two-sided 99.7 %

absl::StatusOr<double> SecondsOfRun(Executable& executable,
                                    ExecutionContext& context,
                                    absl::Span<const Tensor> inputs,
                                    Clock& clock) {
  const MonotonicTime start = clock.Now();
  RETURN_IF_ERROR(executable.Run(context, inputs).status());
  return absl::ToDoubleSeconds(clock.Now() - start);
}

double MedianOfSorted(const std::vector<double>& values) {
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return MedianOfSorted(values);
}

// A run that is too short for the clock counts as one nanosecond.
double Ratio(double incumbent, double candidate) {
  constexpr double kShortest = 1e-9;
  return std::max(incumbent, kShortest) / std::max(candidate, kShortest);
}

// The numbers of pairs after which the interval is looked at: each is a quarter
// more than the one before.
bool IsLook(size_t pairs) {
  size_t look = kFewestForInterval;
  while (look < pairs) look += std::max<size_t>(1, look / 4);
  return look == pairs;
}

enum class Outcome { kUndecided, kFaster, kSlower, kTie };

Outcome Decide(const SpeedupInterval& speedup, double tie) {
  if (speedup.low > 1) return Outcome::kFaster;
  if (speedup.high < 1) return Outcome::kSlower;
  if (speedup.low > 1 - tie && speedup.high < 1 + tie) return Outcome::kTie;
  return Outcome::kUndecided;
}

bool IsPromising(const ProfitMeasurement& measurement,
                 const ProfitOptions& options) {
  const size_t pairs = measurement.pairs();
  if (options.promising_pairs == 0 || pairs < options.promising_pairs) {
    return false;
  }
  for (size_t i = 0; i < pairs; ++i) {
    if (Ratio(measurement.incumbent[i], measurement.candidate[i]) <=
        1 + options.tie) {
      return false;
    }
  }
  return true;
}

}  // namespace

SpeedupInterval EstimateSpeedup(const ProfitMeasurement& measurement) {
  const size_t pairs = measurement.pairs();
  SpeedupInterval speedup{0, 0, std::numeric_limits<double>::infinity()};
  if (pairs == 0) return speedup;
  std::vector<double> ratios;
  ratios.reserve(pairs);
  for (size_t i = 0; i < pairs; ++i) {
    ratios.push_back(Ratio(measurement.incumbent[i], measurement.candidate[i]));
  }
  std::sort(ratios.begin(), ratios.end());
  speedup.median = MedianOfSorted(ratios);
  if (pairs < kFewestForInterval) return speedup;
  const auto count = static_cast<double>(pairs);
  const auto below = static_cast<size_t>(std::max(
      0.0, std::floor((count - kNormalQuantile * std::sqrt(count)) / 2)));
  speedup.low = ratios[below];
  speedup.high = ratios[pairs - 1 - below];
  return speedup;
}

bool IsEnough(const ProfitMeasurement& measurement, absl::Duration spent,
              const ProfitOptions& options) {
  const size_t pairs = measurement.pairs();
  if (pairs == 0) return false;
  if (pairs >= options.most_pairs || spent >= options.patience) return true;
  if (pairs >= options.fewest_pairs && spent >= options.budget) return true;
  if (spent >= options.budget / 4 && IsPromising(measurement, options)) {
    return true;
  }
  return IsLook(pairs) && Decide(EstimateSpeedup(measurement), options.tie) !=
                              Outcome::kUndecided;
}

absl::Status MeasurePairs(Executable& incumbent, Executable& candidate,
                          ExecutionContext& context,
                          absl::Span<const Tensor> inputs, Clock& clock,
                          absl::Duration stretch,
                          ProfitMeasurement& measurement) {
  const MonotonicTime start = clock.Now();
  do {
    double incumbent_seconds = 0;
    double candidate_seconds = 0;
    const double before =
        measurement.pairs() == 0 ? 0 : measurement.candidate.back();
    const auto time = [&](Executable& executable,
                          double& seconds) -> absl::Status {
      // What serves finds its weights in the caches; here the other form has
      // just driven them out.
      if (before < kShortRun) {
        RETURN_IF_ERROR(executable.Run(context, inputs).status());
      }
      ASSIGN_OR_RETURN(seconds,
                       SecondsOfRun(executable, context, inputs, clock));
      return absl::OkStatus();
    };
    // Who goes first alternates: the second finds warmer caches.
    const bool first = measurement.pairs() % 2 == 0;
    if (first) RETURN_IF_ERROR(time(incumbent, incumbent_seconds));
    RETURN_IF_ERROR(time(candidate, candidate_seconds));
    if (!first) RETURN_IF_ERROR(time(incumbent, incumbent_seconds));
    measurement.incumbent.push_back(incumbent_seconds);
    measurement.candidate.push_back(candidate_seconds);
    measurement.fewest_threads = context.fewest_threads();
    measurement.threads =
        measurement.pairs() == 1
            ? context.threads()
            : std::min(measurement.threads, context.threads());
  } while (!IsLook(measurement.pairs()) && clock.Now() - start < stretch);
  return absl::OkStatus();
}

Profit JudgeProfit(const ProfitMeasurement& measurement,
                   const ProfitSizes& sizes, const ProfitOptions& options) {
  Profit profit;
  profit.pairs = static_cast<int>(measurement.pairs());
  profit.threads = measurement.threads;
  if (profit.pairs == 0) {
    profit.reason = "not measured";
    return profit;
  }
  const SpeedupInterval speedup = EstimateSpeedup(measurement);
  profit.speedup = speedup.median;
  profit.speedup_low = speedup.low;
  profit.speedup_high = speedup.high;
  profit.incumbent_seconds = Median(measurement.incumbent);
  profit.candidate_seconds = Median(measurement.candidate);
  profit.fastest_seconds = *std::min_element(measurement.candidate.begin(),
                                             measurement.candidate.end());
  const Outcome outcome = Decide(speedup, options.tie);
  profit.clear = outcome != Outcome::kUndecided;
  std::string why;
  switch (outcome) {
    case Outcome::kFaster:
      profit.worth = true;
      break;
    case Outcome::kSlower:
      why = ", slower than eager";
      break;
    case Outcome::kTie:
      profit.worth = sizes.candidate_bytes < sizes.incumbent_bytes;
      why = profit.worth ? ", as fast as eager and smaller"
                         : ", as fast as eager and not smaller";
      break;
    case Outcome::kUndecided:
      profit.worth = speedup.median >= 1 - options.tie;
      why = ", to be measured again";
      break;
  }
  const std::string interval =
      measurement.pairs() < kFewestForInterval
          ? ""
          : absl::StrFormat(", %.2f to %.2f", speedup.low, speedup.high);
  profit.reason = absl::StrFormat(
      "%.2f times as fast (%.3f ms against %.3f ms%s, %d pairs)%s",
      profit.speedup, profit.candidate_seconds * 1e3,
      profit.incumbent_seconds * 1e3, interval, profit.pairs, why);
  return profit;
}

}  // namespace stoker
