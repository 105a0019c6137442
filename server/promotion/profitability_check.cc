#include "promotion/profitability_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

absl::StatusOr<double> SecondsOfRun(Executable& executable,
                                    ExecutionContext& context,
                                    absl::Span<const Tensor> inputs,
                                    Clock& clock) {
  const absl::Time start = clock.Now();
  RETURN_IF_ERROR(executable.Run(context, inputs).status());
  return absl::ToDoubleSeconds(clock.Now() - start);
}

// Of a list that is not empty; the mean of the middle two when there are two.
double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

// A run that is too short for the clock counts as one nanosecond.
double Ratio(double incumbent, double candidate) {
  constexpr double kShortest = 1e-9;
  return std::max(incumbent, kShortest) / std::max(candidate, kShortest);
}

// Probability of at least `slower` heads in `pairs` tosses of a fair coin.
double SignTest(size_t slower, size_t pairs) {
  double probability = 0;
  double term =
      std::pow(0.5, static_cast<double>(pairs));  // of exactly k heads
  for (size_t k = 0; k <= pairs; ++k) {
    if (k >= slower) probability += term;
    term *= static_cast<double>(pairs - k) / static_cast<double>(k + 1);
  }
  return probability;
}

// Whether the pairs show that the candidate is slower than allowed.
bool ShowsLoss(const std::vector<double>& ratios, double min_speedup) {
  constexpr size_t kFewestForTest = 5;  // fewer can't reach the significance
  constexpr double kSignificance = 0.05;
  if (ratios.size() < kFewestForTest) {
    constexpr double kPlain = 0.8;
    return *std::max_element(ratios.begin(), ratios.end()) <
           min_speedup * kPlain;
  }
  const auto slower = static_cast<size_t>(
      std::count_if(ratios.begin(), ratios.end(),
                    [&](double ratio) { return ratio < min_speedup; }));
  return SignTest(slower, ratios.size()) <= kSignificance;
}

}  // namespace

bool IsEnough(int pairs, absl::Duration spent, const ProfitOptions& options) {
  if (pairs == 0) return false;
  if (pairs >= options.pairs || spent >= options.patience) return true;
  return pairs >= options.fewest_pairs && spent >= options.budget;
}

absl::StatusOr<ProfitMeasurement> MeasureProfit(Executable& incumbent,
                                                Executable& candidate,
                                                ExecutionContext& context,
                                                absl::Span<const Tensor> inputs,
                                                Clock& clock,
                                                const ProfitOptions& options) {
  const absl::Time start = clock.Now();
  // One run each that doesn't count: memory is touched and caches are filled.
  RETURN_IF_ERROR(incumbent.Run(context, inputs).status());
  RETURN_IF_ERROR(candidate.Run(context, inputs).status());
  ProfitMeasurement measurement;
  for (int pair = 0;; ++pair) {
    if (IsEnough(pair, clock.Now() - start, options)) break;
    // Who goes first alternates: the second finds warmer caches.
    Executable* const order[] = {pair % 2 == 0 ? &incumbent : &candidate,
                                 pair % 2 == 0 ? &candidate : &incumbent};
    for (Executable* executable : order) {
      ASSIGN_OR_RETURN(const double seconds,
                       SecondsOfRun(*executable, context, inputs, clock));
      (executable == &incumbent ? measurement.incumbent : measurement.candidate)
          .push_back(seconds);
    }
  }
  return measurement;
}

Verdict JudgeProfit(const ProfitMeasurement& measurement,
                    const ProfitOptions& options) {
  Verdict verdict;
  const size_t pairs =
      std::min(measurement.incumbent.size(), measurement.candidate.size());
  if (pairs == 0) {
    verdict.reason = "not measured";
    return verdict;
  }
  std::vector<double> ratios;
  for (size_t i = 0; i < pairs; ++i) {
    ratios.push_back(Ratio(measurement.incumbent[i], measurement.candidate[i]));
  }
  verdict.speedup = Median(ratios);
  verdict.incumbent_seconds = Median(measurement.incumbent);
  verdict.candidate_seconds = Median(measurement.candidate);
  verdict.promote = !ShowsLoss(ratios, options.min_speedup);
  verdict.reason = absl::StrFormat(
      "%.2f times as fast (%.3f ms against %.3f ms, %d pairs)%s",
      verdict.speedup, verdict.candidate_seconds * 1e3,
      verdict.incumbent_seconds * 1e3, pairs,
      verdict.promote
          ? ""
          : absl::StrFormat(", expected at least %.2f", options.min_speedup));
  return verdict;
}

}  // namespace stoker
