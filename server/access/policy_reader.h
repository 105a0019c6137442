// Reads what the operator's file says; for AccessPolicy::Parse.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "access/policy.h"
#include "base/yaml_value.h"

namespace stoker {

// Values are not shown where somebody may have put a token by mistake.
class PolicyReader {
 public:
  explicit PolicyReader(const std::string& path) : path_(path), errors_(path) {}

  absl::StatusOr<AccessPolicy> Read(const YAML::Node& document);

 private:
  using Caller = AccessPolicy::Caller;
  using Rule = AccessPolicy::Rule;

  std::optional<YamlValue::Entries> SecretMap(
      const YamlValue& value, const std::vector<std::string>& fields) const;
  std::optional<std::vector<YamlValue>> SecretList(
      const YamlValue& value) const;

  void ReadCallers(const YamlValue& value);
  void ReadCaller(const std::string& name, const YamlValue& value);
  // Limits and priority. False: the field is neither.
  static bool ReadShare(const std::string& field, const YamlValue& value,
                        Caller& caller);
  static bool ReadLimit(const std::string& field, const YamlValue& value,
                        std::optional<CallerLimits>& limits);
  static void ReadSubjectLimits(const YamlValue& value, Caller& caller);
  void ReadAnonymous(const YamlValue& value);
  static void CheckLimits(const YamlValue& value,
                          std::optional<CallerLimits>& limits);
  void ReadToken(const Caller& caller, const YamlValue& value);
  void ReadHash(const YamlValue& value, AccessPolicy::Token& token);
  static void ReadExpiry(const YamlValue& value, AccessPolicy::Token& token);
  void ReadClaims(const Caller& caller, const YamlValue& value);
  void ReadJwt(const YamlValue& value);
  void ReadName(const Caller& caller, const YamlValue& value);
  void ReadRules(const YamlValue& value);
  void ReadRule(const YamlValue& value, size_t number);
  static std::vector<MethodGroup> ReadGroups(const YamlValue& value);
  std::vector<Caller*> ReadGrantees(const YamlValue& value);
  static std::vector<ModelPattern> ReadModels(const YamlValue& value);
  Caller* Find(std::string_view name);
  void GrantAllWhatAnonymousMay();

  const std::string path_;
  YamlErrors errors_;
  AccessPolicy policy_;
  std::set<std::string> rule_names_;
};

}  // namespace stoker
