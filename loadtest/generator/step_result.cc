#include "loadtest/generator/step_result.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stoker::loadtest {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMs = 1e-6;  // per ns
// Sending late by more than both of these, at one percentile, decides about the
// latency there.
constexpr double kMaxLagMs = 1;
constexpr double kMaxLagShare = 0.1;
// Busy beyond this, a thread or a machine has no time left for bursts.
constexpr double kBusy = 0.9;
// A queue that grows for as long as the test lasts shows here first.
constexpr double kLeastAnswered = 0.95;

int64_t AnsweredInWindows(const Recording& recording) {
  int64_t ok = 0;
  for (const Recording::Window& window : recording.windows) ok += window.ok;
  return ok;
}

Json HistogramJson(const Histogram& histogram) {
  Json json = {{"count", histogram.count()},
               {"mean", histogram.mean() * kMs},
               {"min", static_cast<double>(histogram.min()) * kMs}};
  for (const auto& [name, percentile] : {std::pair{"p50", 50.0},
                                         {"p90", 90.0},
                                         {"p95", 95.0},
                                         {"p99", 99.0},
                                         {"p99.9", 99.9}}) {
    json[name] = static_cast<double>(histogram.Percentile(percentile)) * kMs;
  }
  json["max"] = static_cast<double>(histogram.max()) * kMs;
  return json;
}

// [percentile, ms] up to where one value decides, denser towards the end.
Json CurveJson(const Histogram& histogram) {
  Json curve = Json::array();
  if (histogram.count() == 0) return curve;
  constexpr int kPerDecade = 20;
  for (int i = 0;; ++i) {
    const double above = std::pow(10.0, -static_cast<double>(i) / kPerDecade);
    const double percentile = 100 * (1 - above);
    curve.push_back(
        {percentile,
         static_cast<double>(histogram.Percentile(percentile)) * kMs});
    if (above * static_cast<double>(histogram.count()) < 1) break;
  }
  return curve;
}

// [low ms, high ms, count] in buckets of 2^(1/8), for a plot.
Json BinsJson(const Histogram& histogram) {
  constexpr double kPerOctave = 8;
  std::map<int, int64_t> bins;
  histogram.ForEach([&](int64_t low, int64_t high, int64_t count) {
    const double middle =
        (static_cast<double>(low) + static_cast<double>(high)) / 2;
    bins[static_cast<int>(
        std::floor(std::log2(std::max(middle, 1.0)) * kPerOctave))] += count;
  });
  Json json = Json::array();
  for (const auto& [bin, count] : bins) {
    json.push_back({std::exp2(bin / kPerOctave) * kMs,
                    std::exp2((bin + 1) / kPerOctave) * kMs, count});
  }
  return json;
}

Json WindowsJson(const StepResult& result) {
  Json json = Json::array();
  for (const auto& window : result.load.recording.windows) {
    const double mean = window.ok == 0
                            ? 0
                            : static_cast<double>(window.latency_sum_ns) /
                                  static_cast<double>(window.ok) * kMs;
    json.push_back(
        {{"ok", window.ok},
         {"failed", window.failed},
         {"latency_mean_ms", mean},
         {"latency_max_ms", static_cast<double>(window.latency_max_ns) * kMs}});
  }
  return json;
}

// Of the answers per second in each window.
Json SpreadJson(const StepResult& result) {
  const auto& windows = result.load.recording.windows;
  const double seconds =
      result.load.seconds / static_cast<double>(windows.size());
  std::vector<double> rates;
  double sum = 0, squares = 0;
  for (const auto& window : windows) {
    rates.push_back(static_cast<double>(window.ok) / seconds);
    sum += rates.back();
  }
  std::sort(rates.begin(), rates.end());
  const double mean = sum / static_cast<double>(rates.size());
  for (const double rate : rates) squares += (rate - mean) * (rate - mean);
  const size_t middle = rates.size() / 2;
  const double median = rates.size() % 2 == 1
                            ? rates[middle]
                            : (rates[middle - 1] + rates[middle]) / 2;
  return {{"windows", rates.size()},
          {"window_seconds", seconds},
          {"min", rates.front()},
          {"median", median},
          {"max", rates.back()},
          {"standard_deviation",
           std::sqrt(squares / static_cast<double>(rates.size()))}};
}

Json ErrorsJson(const Recording& recording) {
  Json json = Json::object();
  for (const auto& [code, errors] : recording.errors) {
    json[CodeName(code)] = {{"count", errors.count},
                            {"with_retry_hint", errors.with_retry_hint},
                            {"latency_ms", HistogramJson(errors.latency)},
                            {"example", errors.example}};
  }
  return json;
}

Json SearchJson(const SearchOutcome& outcome) {
  Json trials = Json::array();
  for (const RateTrial& trial : outcome.trials) {
    Json entry = {{"rate_per_s", trial.rate}, {"meets", trial.meets}};
    if (!trial.meets) entry["why"] = trial.why;
    trials.push_back(std::move(entry));
  }
  return {{"rate_per_s", outcome.rate ? Json(*outcome.rate) : Json(nullptr)},
          {"client_limited", outcome.client_limited},
          {"trials", std::move(trials)}};
}

Json LoadJson(const StepResult& result) {
  if (!result.open) {
    return {
        {"loop", "closed"},
        {"concurrency", std::get<ClosedLoop>(result.step.load).concurrency}};
  }
  return {{"loop", "open"},
          {"rate_per_s", result.rate},
          {"due", result.load.due},
          {"unsent", result.load.unsent}};
}

}  // namespace

double Throughput(const StepResult& result) {
  return static_cast<double>(AnsweredInWindows(result.load.recording)) /
         std::max(result.load.seconds, 1e-9);
}

double Goodput(const StepResult& result) {
  return static_cast<double>(result.load.recording.within_slo) /
         std::max(result.load.seconds, 1e-9);
}

std::vector<std::string> FindClientLimits(const LoadResult& load, bool open) {
  std::vector<std::string> limits;
  const Recording& recording = load.recording;
  if (load.unsent > 0) {
    limits.push_back(absl::StrFormat(
        "%d of %d requests were not sent: %d were under way already",
        load.unsent, load.due, kMaxUnderWay));
  }
  for (const double percentile : {50.0, 99.0}) {
    const double lag =
        static_cast<double>(recording.lag.Percentile(percentile)) * kMs;
    const double latency =
        static_cast<double>(recording.latency.Percentile(percentile)) * kMs;
    if (open && lag > kMaxLagMs && lag > kMaxLagShare * latency) {
      limits.push_back(absl::StrFormat(
          "requests were sent late: p%g %.2f ms after they were due, of a "
          "latency of %.2f ms",
          percentile, lag, latency));
    }
  }
  if (load.use.busiest_thread > kBusy) {
    limits.push_back(
        absl::StrFormat("a thread of the client was busy %.0f %% of the time",
                        load.use.busiest_thread * 100));
  }
  if (load.use.cores > kBusy * load.use.machine_size) {
    limits.push_back(absl::StrFormat("the client used %.1f of its %d cores",
                                     load.use.cores, load.use.machine_size));
  }
  return limits;
}

RateTrial JudgeTrial(double rate, const LoadResult& load, const Slo& slo) {
  RateTrial trial{rate, true, "", !FindClientLimits(load, true).empty()};
  const Recording& recording = load.recording;
  const auto measured = static_cast<double>(std::max<int64_t>(load.due, 1));
  const auto failed = static_cast<double>(load.due - recording.measured_ok);
  const double latency =
      static_cast<double>(recording.latency.Percentile(slo.percentile)) * kMs;
  const double limit = absl::ToDoubleMilliseconds(slo.latency);
  const auto answered = static_cast<double>(AnsweredInWindows(recording));
  if (failed / measured > slo.max_errors) {
    trial.why = absl::StrFormat("%.3g %% of the requests failed",
                                100 * failed / measured);
  } else if (latency > limit) {
    trial.why = absl::StrFormat("p%g was %.3g ms, above %.3g ms",
                                slo.percentile, latency, limit);
  } else if (answered < kLeastAnswered * static_cast<double>(load.due)) {
    trial.why = absl::StrFormat("answers came for %.1f %% of what was due",
                                100 * answered / measured);
  }
  trial.meets = trial.why.empty();
  return trial;
}

Json StepJson(const StepResult& result, const Slo& slo) {
  const Recording& recording = result.load.recording;
  Json json = {{"name", result.step.name},
               {"load", LoadJson(result)},
               {"warmup_seconds", absl::ToDoubleSeconds(result.step.warmup)},
               {"measured_seconds", result.load.seconds},
               {"requests",
                {{"total", recording.total},
                 {"total_ok", recording.total_ok},
                 {"measured", recording.measured},
                 {"measured_ok", recording.measured_ok},
                 {"cut_off", result.load.cut_off}}},
               {"throughput_per_s", Throughput(result)},
               {"throughput_spread", SpreadJson(result)},
               {"slo_ms", absl::ToDoubleMilliseconds(slo.latency)},
               {"goodput_per_s", Goodput(result)},
               {"latency_ms", HistogramJson(recording.latency)},
               {"service_ms", HistogramJson(recording.service)},
               {"send_lag_ms", HistogramJson(recording.lag)},
               {"errors", ErrorsJson(recording)},
               {"client",
                {{"limited", !result.client_limits.empty()},
                 {"reasons", result.client_limits},
                 {"cores_used", result.load.use.cores},
                 {"busiest_thread", result.load.use.busiest_thread},
                 {"machine_cores_used", result.load.use.machine_cores},
                 {"machine_cores", result.load.use.machine_size}}}};
  if (!result.server.empty()) json["server"] = result.server;
  if (result.search) json["search"] = SearchJson(*result.search);
  json["windows"] = WindowsJson(result);
  json["latency_curve"] = CurveJson(recording.latency);
  json["latency_bins"] = BinsJson(recording.latency);
  return json;
}

std::string StepTitle() {
  return absl::StrFormat("%-32s %9s %9s %8s %8s %8s %8s %8s %8s", "step",
                         "answers/s", "goodput/s", "p50 ms", "p90", "p99",
                         "p99.9", "max", "errors");
}

std::string StepLine(const StepResult& result) {
  const Histogram& latency = result.load.recording.latency;
  const auto ms = [&](double percentile) {
    return static_cast<double>(latency.Percentile(percentile)) * kMs;
  };
  const int64_t errors =
      result.load.recording.measured - result.load.recording.measured_ok;
  return absl::StrFormat("%-32s %9.1f %9.1f %8.3f %8.3f %8.3f %8.3f %8.2f %8d",
                         result.step.name.substr(0, 32), Throughput(result),
                         Goodput(result), ms(50), ms(90), ms(99), ms(99.9),
                         ms(100), errors);
}

}  // namespace stoker::loadtest
