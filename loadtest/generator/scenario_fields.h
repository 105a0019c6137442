// Reading a scenario file's fields; private to scenario.cc and
// scenario_steps.cc. Each notes in the value's YamlErrors what is wrong and
// leaves its result as it was.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/yaml_value.h"
#include "loadtest/generator/scenario.h"

namespace stoker::loadtest {

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();

// A number of [min, max], which `expected` describes.
void ReadNumber(const YamlValue& value, double min, double max,
                const std::string& expected, double* to);
// At most a day; 0 only where `zero` is set.
void ReadDuration(const YamlValue& value, double unit_seconds, bool zero,
                  absl::Duration* to);
void ReadText(const YamlValue& value, std::string* to);
std::optional<SizeDistribution> ReadSizes(const YamlValue& value);

template <class T>
void ReadInt(const YamlValue& value, int64_t min, int64_t max, T* to) {
  if (const auto number = value.Int(min, max)) *to = static_cast<T>(*number);
}

// The steps that one entry of `steps` stands for; the scenario holds those
// before it, and its trace.
void ReadStep(const YamlValue& value, const Step& defaults,
              const StepTimes& times, Scenario* scenario);

}  // namespace stoker::loadtest
