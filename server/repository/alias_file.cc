#include "repository/alias_file.h"

#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/yaml_value.h"
#include "repository/snapshot_source.h"

namespace stoker {
namespace {

constexpr size_t kMaxAliases = 32;

// "3", or {version: 3, percent: 90}.
std::optional<AliasSpec> ReadAlias(const YamlValue& value) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  AliasSpec alias;
  if (!value.is_map()) {
    const std::optional<int64_t> version = value.Int(1, kMost);
    if (!version) return std::nullopt;
    alias.version = *version;
    return alias;
  }
  const auto fields = value.Map({"version", "percent"});
  if (!fields) return std::nullopt;
  for (const auto& [name, field] : *fields) {
    if (name == "version") alias.version = field.Int(1, kMost).value_or(-1);
    if (name == "percent") field.ReadInt(0, 100, alias.percent);
  }
  if (alias.version == 0) value.Error("a version", "none");
  return alias;
}

}  // namespace

absl::StatusOr<std::map<std::string, AliasSpec>> ReadAliases(
    std::string_view yaml, const std::string& path) {
  std::map<std::string, AliasSpec> aliases;
  ASSIGN_OR_RETURN(const YAML::Node document, ParseYaml(yaml, path));
  if (document.IsNull() || !document.IsDefined()) return aliases;
  YamlErrors errors(path);
  const YamlValue root(document, "", errors);
  int percent = 0;
  const auto entries = root.MapOfNames();
  if (entries) {
    if (entries->size() > kMaxAliases) {
      root.Error(absl::StrCat("at most ", kMaxAliases, " aliases"),
                 absl::StrCat(entries->size()));
    }
    for (const auto& [name, entry] : *entries) {
      if (!IsAlias(name)) {
        entry.Error(
            "an alias of up to 64 letters, digits, '_', '-' and '.' that "
            "begins with a letter",
            name);
        continue;
      }
      if (const std::optional<AliasSpec> alias = ReadAlias(entry)) {
        percent += alias->percent;
        aliases.emplace(name, *alias);
      }
    }
    if (errors.empty() && percent != 0 && percent != 100) {
      root.Error("percents of 100 together, or none",
                 absl::StrCat(percent, " together"));
    }
  }
  RETURN_IF_ERROR(errors.status());
  return aliases;
}

}  // namespace stoker
