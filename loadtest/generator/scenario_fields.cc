#include "loadtest/generator/scenario_fields.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"

namespace stoker::loadtest {
namespace {

constexpr double kDay = 86400;

// A number of [min, max] as `expected` describes it; nullopt after noting why.
std::optional<double> NumberIn(const YamlValue& value, double min, double max,
                               const std::string& expected) {
  const std::optional<double> number = value.Number();
  if (!number) return std::nullopt;
  if (*number >= min && *number <= max) return number;
  value.Error(expected);
  return std::nullopt;
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

}  // namespace

void ReadDuration(const YamlValue& value, double unit_seconds, bool zero,
                  absl::Duration* to) {
  const std::string expected =
      zero ? "a time from 0 to a day" : "a time above 0, at most a day";
  const double least = zero ? 0 : 1e-9;
  if (const auto number = NumberIn(value, least, kDay / unit_seconds, expected))
    *to = absl::Seconds(*number * unit_seconds);
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

}  // namespace stoker::loadtest
