#include "loadtest/scenario.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/absl_view.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "repository/yaml_value.h"

namespace stoker::loadtest {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr int kMaxConcurrency = 1 << 16;
constexpr double kDay = 86400;
const std::vector<std::string> kArrivals = {"poisson", "constant", "trace"};

// A number of [min, max] as `expected` describes it; nullopt after noting why.
std::optional<double> NumberIn(const YamlValue& value, double min, double max,
                               const std::string& expected) {
  const std::optional<double> number = value.Number();
  if (!number) return std::nullopt;
  if (*number >= min && *number <= max) return number;
  value.Error(expected);
  return std::nullopt;
}

void ReadDuration(const YamlValue& value, double unit_seconds, bool zero,
                  absl::Duration* to) {
  const std::string expected =
      zero ? "a time from 0 to a day" : "a time above 0, at most a day";
  const double least = zero ? 0 : 1e-9;
  if (const auto number = NumberIn(value, least, kDay / unit_seconds, expected))
    *to = absl::Seconds(*number * unit_seconds);
}

template <class T>
void ReadInt(const YamlValue& value, int64_t min, int64_t max, T* to) {
  if (const auto number = value.Int(min, max)) *to = static_cast<T>(*number);
}

void ReadNumber(const YamlValue& value, double min, double max,
                const std::string& expected, double* to) {
  if (const auto number = NumberIn(value, min, max, expected)) *to = *number;
}

void ReadText(const YamlValue& value, std::string* to) {
  if (value.text().empty()) {
    value.Error("a text");
  } else {
    *to = value.text();
  }
}

// [a, b], two integers.
std::optional<std::pair<int64_t, int64_t>> ReadPair(const YamlValue& value) {
  const auto list = value.List();
  if (!list) return std::nullopt;
  if (list->size() != 2) {
    value.Error("a list of 2: the least and the greatest");
    return std::nullopt;
  }
  const auto min = (*list)[0].Int(0, kMaxInt);
  const auto max = (*list)[1].Int(0, kMaxInt);
  if (!min || !max) return std::nullopt;
  return std::pair(*min, *max);
}

std::optional<SizeDistribution> ReadLogNormal(const YamlValue& value) {
  const auto fields = value.Map({"median", "sigma", "min", "max"});
  if (!fields) return std::nullopt;
  LogNormalSizes normal;
  std::set<std::string> given;
  for (const auto& [name, field] : *fields) {
    given.insert(name);
    if (name == "median" || name == "sigma") {
      ReadNumber(field, 1e-9, 1e18, "a number above 0",
                 name == "median" ? &normal.median : &normal.sigma);
    } else {
      ReadInt(field, 0, kMaxInt, name == "min" ? &normal.min : &normal.max);
    }
  }
  if (given.size() == 4) return normal;
  value.Error("median, sigma, min and max");
  return std::nullopt;
}

std::optional<SizeDistribution> ReadWeighted(const YamlValue& value) {
  const auto entries = value.MapOfNames();
  if (!entries) return std::nullopt;
  std::string text = "weighted";
  for (const auto& [size, weight] : *entries) {
    if (!weight.Number()) return std::nullopt;
    absl::StrAppend(&text, ":", size, "=", weight.text());
  }
  const auto parsed = ParseDistribution(text);
  if (parsed.ok()) return *parsed;
  value.Error("a map of sizes to weights from 0 up, one above 0");
  return std::nullopt;
}

std::optional<SizeDistribution> ReadSizes(const YamlValue& value) {
  if (!value.is_map()) {
    const auto size = value.Int(0, kMaxInt);
    if (!size) return std::nullopt;
    return FixedSize{*size};
  }
  const auto forms = value.Map({"uniform", "lognormal", "weighted"});
  if (!forms) return std::nullopt;
  if (forms->size() != 1) {
    value.Error("one of uniform, lognormal and weighted");
    return std::nullopt;
  }
  const auto& [form, field] = forms->front();
  std::optional<SizeDistribution> sizes;
  if (form == "uniform") {
    if (const auto pair = ReadPair(field))
      sizes = UniformSizes{pair->first, pair->second};
  } else {
    sizes = form == "lognormal" ? ReadLogNormal(field) : ReadWeighted(field);
  }
  if (!sizes) return std::nullopt;
  const absl::Status checked = CheckDistribution(*sizes);
  if (checked.ok()) return sizes;
  field.Error("a distribution", Std(checked.message()));
  return std::nullopt;
}

void ReadDimension(const std::string& name, const YamlValue& value,
                   Scenario* scenario) {
  const auto fields = value.Map({"axes", "sizes"});
  if (!fields) return;
  MixedDimension dimension{name, {}, FixedSize{}};
  bool sized = false;
  for (const auto& [key, field] : *fields) {
    if (key == "sizes") {
      sized = true;
      if (const auto sizes = ReadSizes(field)) dimension.sizes = *sizes;
      continue;
    }
    const auto axes = field.List();
    if (!axes) continue;
    for (const YamlValue& axis : *axes) {
      ReadText(axis, &dimension.axes.emplace_back());
    }
  }
  // A trace brings the sizes.
  if (dimension.axes.empty() || (!sized && !scenario->trace)) {
    value.Error("axes, a list such as [input_ids.1], and sizes");
  }
  scenario->dimensions.push_back(std::move(dimension));
}

void ReadInput(const std::string& name, const YamlValue& value,
               Scenario* scenario) {
  const auto fields = value.Map({"range"});
  if (!fields) return;
  for (const auto& [key, field] : *fields) {
    const auto list = field.List();
    if (!list) continue;
    if (list->size() != 2) {
      field.Error("a list of 2: the least and the greatest value");
      continue;
    }
    const auto min = (*list)[0].Number();
    const auto max = (*list)[1].Number();
    if (!min || !max) continue;
    if (!std::isfinite(*min) || !std::isfinite(*max) || *min > *max) {
      field.Error("two finite numbers in order");
      continue;
    }
    scenario->ranges[name] = {*min, *max};
  }
}

void ReadParameter(const std::string& name, const YamlValue& value,
                   Scenario* scenario) {
  const std::string text = value.text();
  int64_t integer = 0;
  if (text == "true" || text == "false") {
    scenario->parameters[name] = text == "true";
  } else if (absl::SimpleAtoi(text, &integer)) {
    scenario->parameters[name] = integer;
  } else if (text.empty()) {
    value.Error("true, false, an integer or a text");
  } else {
    scenario->parameters[name] = text;
  }
}

void ReadSlo(const YamlValue& value, Slo* slo) {
  const auto fields = value.Map({"latency_ms", "percentile", "max_errors"});
  if (!fields) return;
  for (const auto& [name, field] : *fields) {
    if (name == "latency_ms") ReadDuration(field, 1e-3, false, &slo->latency);
    if (name == "percentile")
      ReadNumber(field, 1, 100, "a number from 1 to 100", &slo->percentile);
    if (name == "max_errors")
      ReadNumber(field, 0, 1, "a share from 0 to 1", &slo->max_errors);
  }
}

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

// The steps that one entry of `steps` stands for.
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

// What does not depend on other fields.
void ReadPlain(const std::string& name, const YamlValue& value,
               const std::string& folder, Scenario* scenario) {
  if (name == "name") ReadText(value, &scenario->name);
  if (name == "model") ReadText(value, &scenario->model);
  if (name == "version") ReadText(value, &scenario->version);
  if (name == "stream") scenario->stream = value.Bool().value_or(false);
  if (name == "check_answers")
    scenario->check_answers = value.Bool().value_or(false);
  if (name == "connections") ReadInt(value, 1, 1024, &scenario->connections);
  if (name == "threads") ReadInt(value, 0, 256, &scenario->threads);
  if (name == "seed") ReadInt(value, 0, kMaxInt, &scenario->seed);
  if (name == "messages") ReadInt(value, 1, 1 << 20, &scenario->messages);
  if (name == "window_seconds")
    ReadDuration(value, 1, false, &scenario->window);
  if (name == "timeout_ms") ReadDuration(value, 1e-3, true, &scenario->timeout);
  if (name == "slo") ReadSlo(value, &scenario->slo);
  if (name == "trace") {
    std::string file;
    ReadText(value, &file);
    scenario->trace = TraceFile{std::filesystem::path(folder) / file};
  }
}

void ReadFields(const YamlValue::Entries& fields, const std::string& folder,
                const StepTimes& times, Scenario* scenario) {
  Step defaults;
  for (const auto& [name, value] : fields) {
    ReadPlain(name, value, folder, scenario);
    if (name == "warmup_seconds")
      ReadDuration(value, 1, true, &defaults.warmup);
    if (name == "measure_seconds")
      ReadDuration(value, 1, false, &defaults.measure);
  }
  const auto each = [&](const std::string& wanted, auto&& read) {
    for (const auto& [name, value] : fields) {
      if (name != wanted) continue;
      const auto entries = value.MapOfNames();
      if (!entries) continue;
      for (const auto& [key, field] : *entries) read(key, field, scenario);
    }
  };
  each("dimensions", ReadDimension);
  each("inputs", ReadInput);
  each("parameters", ReadParameter);
  for (const auto& [name, value] : fields) {
    if (name != "steps") continue;
    const auto steps = value.List();
    if (!steps) continue;
    for (const YamlValue& step : *steps)
      ReadStep(step, defaults, times, scenario);
  }
}

}  // namespace

absl::StatusOr<Scenario> ParseScenario(std::string_view text,
                                       const std::string& path,
                                       const StepTimes& times) {
  ASSIGN_OR_RETURN(const YAML::Node document, ParseYaml(text, path));
  YamlErrors errors(path);
  const YamlValue root(document, "", errors);
  const auto fields = root.Map(
      {"name", "model", "version", "stream", "check_answers", "connections",
       "threads", "seed", "messages", "window_seconds", "timeout_ms", "slo",
       "trace", "warmup_seconds", "measure_seconds", "dimensions", "inputs",
       "parameters", "steps"});
  Scenario scenario;
  if (fields) {
    ReadFields(*fields, std::filesystem::path(path).parent_path(), times,
               &scenario);
  }
  if (errors.empty() && scenario.model.empty())
    root.Error("a field model", "none");
  if (errors.empty() && scenario.steps.empty())
    root.Error("a field steps with at least one step", "none");
  RETURN_IF_ERROR(errors.status());
  if (scenario.name.empty()) scenario.name = std::filesystem::path(path).stem();
  for (Step& step : scenario.steps) {
    if (step.name.empty()) step.name = DescribeLoad(step);
  }
  return scenario;
}

absl::StatusOr<Scenario> ReadScenario(const std::string& path,
                                      const StepTimes& times) {
  ASSIGN_OR_RETURN(const std::string text, Files::Real().Read(path));
  return ParseScenario(text, path, times);
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
