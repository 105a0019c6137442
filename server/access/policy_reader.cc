// AccessPolicy::Parse: what the operator's file says.

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "access/policy.h"
#include "base/errno_status.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/yaml_value.h"

namespace stoker {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxName = 64;

bool IsName(std::string_view text) {
  constexpr char kOthers[] = "._@/-";
  return !text.empty() && text.size() <= kMaxName &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  std::string_view(kOthers).find(c) != std::string_view::npos;
         });
}

std::vector<std::string> GroupChoices() {
  return {MethodGroupNames().begin(), MethodGroupNames().end()};
}

}  // namespace

// Values are not shown where somebody may have put a token by mistake.
class PolicyReader {
 public:
  explicit PolicyReader(const std::string& path) : errors_(path) {}

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
  void ReadToken(const Caller& caller, const YamlValue& value);
  void ReadHash(const YamlValue& value, AccessPolicy::Token& token);
  static void ReadExpiry(const YamlValue& value, AccessPolicy::Token& token);
  void ReadName(const Caller& caller, const YamlValue& value);
  void ReadRules(const YamlValue& value);
  void ReadRule(const YamlValue& value, size_t number);
  static std::vector<MethodGroup> ReadGroups(const YamlValue& value);
  std::vector<Caller*> ReadGrantees(const YamlValue& value);
  static std::vector<ModelPattern> ReadModels(const YamlValue& value);
  Caller* Find(std::string_view name);
  void GrantAllWhatAnonymousMay();

  YamlErrors errors_;
  AccessPolicy policy_;
  std::set<std::string> rule_names_;
};

std::optional<YamlValue::Entries> PolicyReader::SecretMap(
    const YamlValue& value, const std::vector<std::string>& fields) const {
  if (value.is_map()) return value.Map(fields);
  value.Error(absl::StrCat("a map with ", fields.front()), "none");
  return std::nullopt;
}

std::optional<std::vector<YamlValue>> PolicyReader::SecretList(
    const YamlValue& value) const {
  if (value.is_list()) return value.List();
  value.Error("a list", "none");
  return std::nullopt;
}

absl::StatusOr<AccessPolicy> PolicyReader::Read(const YAML::Node& document) {
  policy_.anonymous_ = std::make_unique<Caller>();
  policy_.anonymous_->name = AccessPolicy::kAnonymous;
  const YamlValue top(document, "", errors_);
  const std::optional<YamlValue::Entries> fields =
      top.Map({"callers", "rules"});
  // Rules name callers, wherever they stand.
  for (const char* part : {"callers", "rules"}) {
    for (const auto& [name, value] : *fields) {
      if (name != part) continue;
      if (name == "callers") {
        ReadCallers(value);
      } else {
        ReadRules(value);
      }
    }
  }
  if (errors_.empty() && policy_.rules_.empty()) {
    top.Error("rules, without which nobody may do anything", "none");
  }
  RETURN_IF_ERROR(errors_.status());
  GrantAllWhatAnonymousMay();
  return std::move(policy_);
}

void PolicyReader::GrantAllWhatAnonymousMay() {
  for (const auto& caller : policy_.callers_) {
    for (size_t group = 0; group < kMethodGroups; ++group) {
      const std::vector<const Rule*>& all = policy_.anonymous_->rules[group];
      std::vector<const Rule*>& own = caller->rules[group];
      own.insert(own.end(), all.begin(), all.end());
    }
  }
}

void PolicyReader::ReadCallers(const YamlValue& value) {
  const std::optional<YamlValue::Entries> callers = value.MapOfNames();
  if (!callers.has_value()) return;
  for (const auto& [name, caller] : *callers) ReadCaller(name, caller);
}

void PolicyReader::ReadCaller(const std::string& name, const YamlValue& value) {
  if (name == AccessPolicy::kAnonymous) {
    value.Error("another name: anonymous is who shows nothing", name);
    return;
  }
  if (!IsName(name)) {
    value.Error(absl::StrCat("a name of 1 to ", kMaxName,
                             " letters, digits and . _ @ / -"),
                absl::CHexEscape(name.substr(0, kMaxName)));
    return;
  }
  Caller& caller = *policy_.callers_.emplace_back(std::make_unique<Caller>());
  caller.name = name;
  const auto fields = SecretMap(value, {"tokens", "names"});
  if (!fields.has_value()) return;
  size_t ways = 0;
  for (const auto& [field, ones] : *fields) {
    const std::optional<std::vector<YamlValue>> list = SecretList(ones);
    if (!list.has_value()) return;
    ways += list->size();
    for (const YamlValue& one : *list) {
      if (field == "tokens") {
        ReadToken(caller, one);
      } else {
        ReadName(caller, one);
      }
    }
  }
  if (ways == 0) {
    value.Error("tokens or names, by which the caller is recognised", "none");
  }
}

void PolicyReader::ReadToken(const Caller& caller, const YamlValue& value) {
  const auto fields = SecretMap(value, {"sha256", "expires"});
  if (!fields.has_value()) return;
  AccessPolicy::Token token;
  token.caller = &caller;
  bool hashed = false;
  for (const auto& [field, one] : *fields) {
    if (field == "sha256") {
      hashed = true;
      ReadHash(one, token);
    } else {
      ReadExpiry(one, token);
    }
  }
  if (!hashed) value.Error("sha256, the token's hash", "none");
  policy_.tokens_.push_back(token);
}

void PolicyReader::ReadHash(const YamlValue& value,
                            AccessPolicy::Token& token) {
  const std::string text = value.text();
  const bool digits = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c));
  });
  if (!digits || text.size() != 2 * token.hash.size()) {
    value.Error("64 hexadecimal digits, as stokerctl policy hash prints them",
                absl::StrCat(text.size(), " characters",
                             digits ? "" : ", not all of them digits"));
    return;
  }
  const std::string bytes = absl::HexStringToBytes(text);
  std::copy(bytes.begin(), bytes.end(), token.hash.begin());
  if (const AccessPolicy::Token* other = policy_.FindToken(token.hash)) {
    value.Error("a token of its own",
                absl::StrCat("one that ", other->caller->name, " has too"));
  }
}

void PolicyReader::ReadExpiry(const YamlValue& value,
                              AccessPolicy::Token& token) {
  std::string error;
  const std::string text = value.text();
  if (!absl::ParseTime(absl::RFC3339_full, text, &token.expires, &error)) {
    value.Error("a time such as 2027-01-31T00:00:00Z");
  }
}

void PolicyReader::ReadName(const Caller& caller, const YamlValue& value) {
  const std::string name = absl::AsciiStrToLower(value.text());
  if (name.empty() || absl::StrContains(name, "*")) {
    value.Error("a name of a certificate (DNS, URI or e-mail), without *");
    return;
  }
  const auto [entry, added] = policy_.names_.emplace(name, &caller);
  if (added) return;
  value.Error("a name of its own",
              absl::StrCat("one that ", entry->second->name, " has too"));
}

AccessPolicy::Caller* PolicyReader::Find(std::string_view name) {
  if (name == AccessPolicy::kAnonymous) return policy_.anonymous_.get();
  for (const auto& caller : policy_.callers_) {
    if (caller->name == name) return caller.get();
  }
  return nullptr;
}

void PolicyReader::ReadRules(const YamlValue& value) {
  const std::optional<std::vector<YamlValue>> rules = value.List();
  if (!rules.has_value()) return;
  for (size_t i = 0; i < rules->size(); ++i) ReadRule((*rules)[i], i + 1);
}

void PolicyReader::ReadRule(const YamlValue& value, size_t number) {
  const std::optional<YamlValue::Entries> fields =
      value.Map({"name", "callers", "groups", "models"});
  if (!fields.has_value()) return;
  auto rule = std::make_unique<Rule>();
  rule->name = absl::StrCat("rule ", number);
  std::vector<MethodGroup> groups;
  std::vector<Caller*> callers;
  std::set<std::string> seen;
  for (const auto& [field, one] : *fields) {
    seen.insert(field);
    if (field == "callers") {
      callers = ReadGrantees(one);
    } else if (field == "groups") {
      groups = ReadGroups(one);
    } else if (field == "models") {
      rule->models = ReadModels(one);
    } else if (one.text().empty()) {
      one.Error("a text");
    } else {
      rule->name = one.text();
    }
  }
  for (const char* needed : {"callers", "groups"}) {
    if (seen.count(needed) == 0) value.Error(needed, "none");
  }
  if (seen.count("models") == 0) rule->models.emplace_back("*");
  if (!rule_names_.insert(rule->name).second) {
    value.Error("a name of its own", absl::StrCat(rule->name, " again"));
  }
  for (Caller* const caller : callers) {
    for (const MethodGroup group : groups) {
      caller->rules[static_cast<size_t>(group)].push_back(rule.get());
    }
  }
  policy_.rules_.push_back(std::move(rule));
}

std::vector<MethodGroup> PolicyReader::ReadGroups(const YamlValue& value) {
  std::vector<MethodGroup> groups;
  const std::optional<std::vector<YamlValue>> list = value.List();
  if (!list.has_value()) return groups;
  for (const YamlValue& one : *list) {
    if (const std::optional<int> group = one.Choice(GroupChoices())) {
      groups.push_back(static_cast<MethodGroup>(*group));
    }
  }
  if (list->empty()) value.Error("at least one group", "none");
  return groups;
}

std::vector<AccessPolicy::Caller*> PolicyReader::ReadGrantees(
    const YamlValue& value) {
  std::vector<Caller*> callers;
  const std::optional<std::vector<YamlValue>> list = value.List();
  if (!list.has_value()) return callers;
  for (const YamlValue& one : *list) {
    if (Caller* const caller = Find(one.text())) {
      callers.push_back(caller);
    } else {
      one.Error("anonymous or the name of a caller");
    }
  }
  if (list->empty()) value.Error("at least one caller", "none");
  return callers;
}

std::vector<ModelPattern> PolicyReader::ReadModels(const YamlValue& value) {
  std::vector<ModelPattern> models;
  const std::optional<std::vector<YamlValue>> list = value.List();
  if (!list.has_value()) return models;
  for (const YamlValue& one : *list) {
    if (one.text().empty()) {
      one.Error("a model's name, in which * stands for any characters");
    } else {
      models.emplace_back(one.text());
    }
  }
  if (list->empty()) value.Error("at least one model", "none");
  return models;
}

absl::StatusOr<AccessPolicy> AccessPolicy::Parse(std::string_view text,
                                                 const std::string& path) {
  ASSIGN_OR_RETURN(const YAML::Node document, ParseYaml(text, path));
  return PolicyReader(path).Read(document);
}

absl::StatusOr<AccessPolicy> AccessPolicy::Read(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path);
  if ((info.st_mode & S_IWOTH) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        path, ": expected a file that not everybody may write, got mode ",
        absl::StrFormat("%o", info.st_mode & 0777)));
  }
  ASSIGN_OR_RETURN(const std::string text,
                   ReadAtMost(Files::Real(), path, kMaxFileBytes));
  return Parse(text, path);
}

}  // namespace stoker
