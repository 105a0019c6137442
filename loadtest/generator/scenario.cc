#include "loadtest/generator/scenario.h"

#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "loadtest/generator/scenario_fields.h"

namespace stoker::loadtest {
namespace {

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

// What does not depend on other fields.
void ReadPlain(const std::string& name, const YamlValue& value,
               const std::string& folder, Scenario* scenario) {
  if (name == "name") ReadText(value, &scenario->name);
  if (name == "model") ReadText(value, &scenario->model);
  if (name == "version") ReadText(value, &scenario->version);
  if (name == "stream") scenario->stream = value.Bool().value_or(false);
  if (name == "shared_memory")
    scenario->shared_memory = value.Bool().value_or(false);
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
      {"name",          "model",         "version",        "stream",
       "shared_memory", "check_answers", "connections",    "threads",
       "seed",          "messages",      "window_seconds", "timeout_ms",
       "slo",           "trace",         "warmup_seconds", "measure_seconds",
       "dimensions",    "inputs",        "parameters",     "steps"});
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

}  // namespace stoker::loadtest
