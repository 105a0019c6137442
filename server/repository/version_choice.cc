#include "repository/version_choice.h"

#include <algorithm>
#include <limits>

#include "base/status_macros.h"
#include "repository/model_repository.h"

namespace stoker {

namespace {

constexpr char kExpected[] =
    "latest, {latest: <number>}, all or a list of versions";

}  // namespace

VersionChoice ReadVersions(const YamlValue& value) {
  VersionChoice choice;
  if (value.is_map()) {
    const auto fields = value.Map({"latest"});
    if (!fields) return choice;
    if (fields->empty()) value.Error(kExpected);
    for (const auto& [name, field] : *fields) {
      choice.latest =
          field.Int(1, std::numeric_limits<int64_t>::max()).value_or(1);
    }
    return choice;
  }
  if (!value.is_list()) {
    if (value.text() == "all" || value.text() == "latest") {
      choice.all = value.text() == "all";
    } else {
      value.Error(kExpected);
    }
    return choice;
  }
  const std::vector<YamlValue> elements = *value.List();
  if (elements.empty()) value.Error(kExpected);
  for (const YamlValue& element : elements) {
    const std::optional<int64_t> version =
        element.Int(1, std::numeric_limits<int64_t>::max());
    if (!version) continue;
    if (std::find(choice.listed.begin(), choice.listed.end(), *version) !=
        choice.listed.end()) {
      element.Error("every version once");
    }
    choice.listed.push_back(*version);
  }
  return choice;
}

absl::StatusOr<std::vector<int64_t>> ChooseVersions(
    std::string_view yaml, const std::string& yaml_path,
    std::vector<int64_t> found) {
  ASSIGN_OR_RETURN(const YAML::Node document, ParseYaml(yaml, yaml_path));
  YamlErrors errors(yaml_path);
  VersionChoice choice;
  for (const auto& pair : document) {
    if (pair.first.IsScalar() && pair.first.Scalar() == "versions") {
      choice = ReadVersions(YamlValue(pair.second, "versions", errors));
      break;
    }
  }
  RETURN_IF_ERROR(errors.status());
  if (!choice.listed.empty()) found = choice.listed;
  std::sort(found.begin(), found.end());
  if (!choice.all && choice.listed.empty() &&
      static_cast<int64_t>(found.size()) > choice.latest) {
    found.erase(found.begin(), found.end() - choice.latest);
  }
  return found;
}

}  // namespace stoker
