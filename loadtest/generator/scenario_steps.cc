#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "loadtest/generator/scenario_fields.h"

namespace stoker::loadtest {
namespace {

constexpr int kMaxConcurrency = 1 << 16;
const std::vector<std::string> kArrivals = {"poisson", "constant", "trace"};

// One step for each concurrency.
std::vector<Step> ReadClosed(const YamlValue& value, const Step& base) {
  std::vector<Step> steps;
  const auto add = [&](const YamlValue& item) {
    if (const auto concurrency = item.Int(1, kMaxConcurrency)) {
      steps.push_back(base);
      steps.back().load = ClosedLoop{static_cast<int>(*concurrency)};
    }
  };
  if (!value.is_list()) {
    add(value);
  } else if (const auto list = value.List()) {
    if (list->empty()) value.Error("at least one concurrency");
    for (const YamlValue& item : *list) add(item);
  }
  return steps;
}

constexpr double kMaxRate = 1e7;
const char kRateText[] = "requests per second, above 0 and at most 1e7";

std::optional<Step> ReadOpen(const YamlValue& value, Step step,
                             bool search_before, bool trace) {
  const auto fields = value.Map({"arrivals", "rate", "rate_of_peak", "speed"});
  if (!fields) return std::nullopt;
  OpenLoop open;
  for (const auto& [name, field] : *fields) {
    if (name == "arrivals") {
      if (const auto kind = field.Choice(kArrivals))
        open.arrivals = static_cast<ArrivalKind>(*kind);
    }
    if (name == "rate")
      ReadNumber(field, 1e-6, kMaxRate, kRateText, &open.rate);
    if (name == "rate_of_peak") {
      ReadNumber(field, 1e-3, 100, "a share from 0.001 to 100",
                 &open.rate_of_peak);
      if (!search_before) field.Error("a step with a search before this one");
    }
    if (name == "speed")
      ReadNumber(field, 1e-3, 1e3, "a factor from 0.001 to 1000", &open.speed);
  }
  const bool recorded = open.arrivals == ArrivalKind::kRecorded;
  if (recorded && !trace) {
    value.Error("a trace in this file for arrivals: trace", "none");
  } else if (recorded ? open.rate > 0 || open.rate_of_peak > 0
                      : (open.rate > 0) == (open.rate_of_peak > 0)) {
    value.Error(recorded ? "no rate: the trace has its own"
                         : "either rate or rate_of_peak");
  }
  step.load = open;
  return step;
}

std::optional<Step> ReadSearch(const YamlValue& value, Step step) {
  const auto fields = value.Map({"arrivals", "min_rate", "max_rate",
                                 "concurrency", "resolution", "confirmations"});
  if (!fields) return std::nullopt;
  RateSearch search;
  for (const auto& [name, field] : *fields) {
    if (name == "arrivals") {
      if (const auto kind = field.Choice({kArrivals[0], kArrivals[1]}))
        search.arrivals = static_cast<ArrivalKind>(*kind);
    }
    if (name == "min_rate")
      ReadNumber(field, 1e-6, kMaxRate, kRateText, &search.min_rate);
    if (name == "max_rate")
      ReadNumber(field, 1e-6, kMaxRate, kRateText, &search.max_rate);
    if (name == "concurrency")
      ReadInt(field, 1, kMaxConcurrency, &search.concurrency);
    if (name == "resolution")
      ReadNumber(field, 0.001, 0.5, "a share from 0.001 to 0.5",
                 &search.resolution);
    if (name == "confirmations") ReadInt(field, 0, 20, &search.confirmations);
  }
  if (search.max_rate > 0 && search.max_rate <= search.min_rate)
    value.Error("a max_rate above min_rate");
  step.load = search;
  return step;
}

}  // namespace

void ReadStep(const YamlValue& value, const Step& defaults,
              const StepTimes& times, Scenario* scenario) {
  const auto fields = value.Map({"name", "closed", "open", "search",
                                 "warmup_seconds", "measure_seconds"});
  if (!fields) return;
  Step base = defaults;
  const YamlValue* load = nullptr;
  std::string kind;
  int loads = 0;
  for (const auto& [name, field] : *fields) {
    if (name == "name") {
      ReadText(field, &base.name);
    } else if (name == "warmup_seconds") {
      ReadDuration(field, 1, true, &base.warmup);
    } else if (name == "measure_seconds") {
      ReadDuration(field, 1, false, &base.measure);
    } else {
      ++loads;
      load = &field;
      kind = name;
    }
  }
  if (loads != 1) {
    value.Error("one of closed, open and search");
    return;
  }
  if (times.warmup) base.warmup = *times.warmup;
  if (times.measure) base.measure = *times.measure;
  bool search_before = false;
  for (const Step& step : scenario->steps) {
    search_before |= std::holds_alternative<RateSearch>(step.load);
  }
  if (kind == "closed") {
    for (Step& step : ReadClosed(*load, base))
      scenario->steps.push_back(std::move(step));
    return;
  }
  std::optional<Step> step =
      kind == "open"
          ? ReadOpen(*load, base, search_before, scenario->trace.has_value())
          : ReadSearch(*load, base);
  if (step) scenario->steps.push_back(*std::move(step));
}

std::string DescribeLoad(const Step& step) {
  if (const auto* closed = std::get_if<ClosedLoop>(&step.load))
    return absl::StrCat("closed, ", closed->concurrency, " under way");
  if (std::holds_alternative<RateSearch>(step.load))
    return "highest rate that meets the SLO";
  const auto& open = std::get<OpenLoop>(step.load);
  const std::string& arrivals = kArrivals[static_cast<int>(open.arrivals)];
  if (open.arrivals == ArrivalKind::kRecorded)
    return absl::StrFormat("%s, speed %g", arrivals, open.speed);
  if (open.rate > 0) return absl::StrFormat("%s, %g/s", arrivals, open.rate);
  return absl::StrFormat("%s, %g %% of peak", arrivals,
                         open.rate_of_peak * 100);
}

}  // namespace stoker::loadtest
