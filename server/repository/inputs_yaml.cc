#include "repository/inputs_yaml.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace stoker {
namespace {

// A number that an element of `dtype` can have.
std::optional<double> ReadElement(const YamlValue& value, DataType dtype,
                                  bool may_be_infinite) {
  if (dtype == DataType::kBool &&
      (value.text() == "true" || value.text() == "false")) {
    return value.text() == "true" ? 1 : 0;
  }
  const std::optional<double> number = value.Number();
  if (!number) return std::nullopt;
  if (may_be_infinite && IsFloating(dtype) && std::isinf(*number)) {
    return number;
  }
  const auto [least, most] = LimitsOf(dtype);
  const bool whole = IsFloating(dtype) || std::floor(*number) == *number;
  if (whole && *number >= least && *number <= most) return number;
  value.Error(absl::StrCat(IsFloating(dtype) ? "a number" : "a whole number",
                           " from ", least, " to ", most, " (",
                           std::string(DataTypeName(dtype)), ")"));
  return std::nullopt;
}

void ReadRange(const YamlValue& value, InputSpec& input) {
  const auto ends = value.List();
  if (!ends) return;
  if (ends->size() != 2) return value.Error("[least, most]");
  const auto least = ReadElement((*ends)[0], input.dtype, false);
  const auto most = ReadElement((*ends)[1], input.dtype, false);
  if (!least || !most) return;
  if (*least > *most) {
    return value.Error("[least, most]",
                       absl::StrCat("[", *least, ", ", *most, "]"));
  }
  input.range.emplace(*least, *most);
}

template <typename Specs>
std::vector<std::string> NamesOf(const Specs& specs) {
  std::vector<std::string> names;
  names.reserve(specs.size());
  for (const auto& spec : specs) names.push_back(spec.name);
  return names;
}

std::string ReadName(const YamlValue& value, const std::string& name) {
  constexpr size_t kMaxName = 256;
  if (!value.text().empty() && value.text().size() <= kMaxName) {
    return value.text();
  }
  value.Error(absl::StrCat("a name of 1 to ", kMaxName, " bytes"));
  return name;
}

template <typename Specs>
void CheckNames(const YamlValue& value, const Specs& specs) {
  std::set<std::string> seen;
  for (const auto& spec : specs) {
    if (!seen.insert(spec.name).second) {
      value.Error("different names", absl::StrCat(spec.name, " for two"));
    }
  }
}

}  // namespace

void ReadInputs(const YamlValue& value, std::vector<InputSpec>& inputs) {
  const std::vector<std::string> names = NamesOf(inputs);
  const auto entries = value.Map(names);
  if (!entries) return;
  for (const auto& [name, entry] : *entries) {
    const auto fields = entry.Map({"pad_value", "range", "name"});
    if (!fields) continue;
    InputSpec& input = inputs[static_cast<size_t>(
        std::find(names.begin(), names.end(), name) - names.begin())];
    for (const auto& [key, field] : *fields) {
      if (key == "pad_value") {
        input.pad_value =
            ReadElement(field, input.dtype, /*may_be_infinite=*/true)
                .value_or(0);
      } else if (key == "name") {
        input.name = ReadName(field, name);
      } else {
        ReadRange(field, input);
      }
    }
  }
  CheckNames(value, inputs);
}

void ReadOutputs(const YamlValue& value, std::vector<OutputSpec>& outputs) {
  const std::vector<std::string> names = NamesOf(outputs);
  const auto entries = value.Map(names);
  if (!entries) return;
  for (const auto& [name, entry] : *entries) {
    const auto fields = entry.Map({"name"});
    if (!fields) continue;
    OutputSpec& output = outputs[static_cast<size_t>(
        std::find(names.begin(), names.end(), name) - names.begin())];
    for (const auto& [key, field] : *fields) {
      output.name = ReadName(field, name);
    }
  }
  CheckNames(value, outputs);
}

}  // namespace stoker
