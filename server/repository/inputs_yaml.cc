#include "repository/inputs_yaml.h"

#include <cmath>
#include <optional>
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

}  // namespace

void ReadInputs(const YamlValue& value, std::vector<InputSpec>& inputs) {
  std::vector<std::string> names;
  names.reserve(inputs.size());
  for (const InputSpec& input : inputs) names.push_back(input.name);
  const auto entries = value.Map(names);
  if (!entries) return;
  for (const auto& [name, entry] : *entries) {
    const auto fields = entry.Map({"pad_value", "range"});
    if (!fields) continue;
    for (InputSpec& input : inputs) {
      if (input.name != name) continue;
      for (const auto& [key, field] : *fields) {
        if (key == "pad_value") {
          input.pad_value =
              ReadElement(field, input.dtype, /*may_be_infinite=*/true)
                  .value_or(0);
        } else {
          ReadRange(field, input);
        }
      }
    }
  }
}

}  // namespace stoker
