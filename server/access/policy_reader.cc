#include "access/policy_reader.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "access/trusted_file.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

constexpr size_t kMaxPolicyBytes = 1 << 20;
constexpr size_t kMaxName = 64;
constexpr int kMaxRate = 1'000'000;
constexpr int kMaxPriority = 1'000;

bool IsName(std::string_view text) {
  constexpr char kOthers[] = "._@/-";
  return !text.empty() && text.size() <= kMaxName &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  std::string_view(kOthers).find(c) != std::string_view::npos;
         });
}

}  // namespace

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
      top.Map({"callers", "rules", "jwt"});
  // Callers need the tokens' rules and rules name callers, wherever they stand.
  for (const char* part : {"jwt", "callers", "rules"}) {
    for (const auto& [name, value] : *fields) {
      if (name != part) continue;
      if (name == "jwt") {
        ReadJwt(value);
      } else if (name == "callers") {
        ReadCallers(value);
      } else {
        ReadRules(value);
      }
    }
  }
  if (policy_.jwt_.has_value() && !policy_.jwt_->caller.empty() &&
      policy_.of_jwt_ == nullptr) {
    top.Error("jwt.caller to be one of callers", policy_.jwt_->caller);
  }
  if (errors_.empty() && policy_.rules_.empty()) {
    top.Error("rules, without which nobody may do anything", "none");
  }
  RETURN_IF_ERROR(errors_.status());
  GrantAllWhatAnonymousMay();
  return std::move(policy_);
}

void PolicyReader::ReadCallers(const YamlValue& value) {
  const std::optional<YamlValue::Entries> callers = value.MapOfNames();
  if (!callers.has_value()) return;
  for (const auto& [name, caller] : *callers) ReadCaller(name, caller);
}

void PolicyReader::ReadCaller(const std::string& name, const YamlValue& value) {
  if (name == AccessPolicy::kAnonymous) return ReadAnonymous(value);
  if (!IsName(name)) {
    value.Error(absl::StrCat("a name of 1 to ", kMaxName,
                             " letters, digits and . _ @ / -"),
                absl::CHexEscape(name.substr(0, kMaxName)));
    return;
  }
  Caller& caller = *policy_.callers_.emplace_back(std::make_unique<Caller>());
  caller.name = name;
  const auto fields =
      SecretMap(value, {"tokens", "names", "claims", "requests_per_second",
                        "burst", "concurrent", "priority", "per_subject"});
  if (!fields.has_value()) return;
  size_t ways = 0, claims = 0;
  for (const auto& [field, ones] : *fields) {
    if (ReadShare(field, ones, caller)) continue;
    const std::optional<std::vector<YamlValue>> list = SecretList(ones);
    if (!list.has_value()) return;
    ways += list->size();
    if (field == "claims") claims = list->size();
    for (const YamlValue& one : *list) {
      if (field == "tokens") {
        ReadToken(caller, one);
      } else if (field == "claims") {
        ReadClaims(caller, one);
      } else {
        ReadName(caller, one);
      }
    }
  }
  CheckLimits(value, caller.limits);
  const bool is_of_jwt =
      policy_.jwt_.has_value() && policy_.jwt_->caller == name;
  if (is_of_jwt) policy_.of_jwt_ = &caller;
  if (caller.subject_limits.has_value() && claims == 0 && !is_of_jwt) {
    value.Error("claims beside per_subject: other tokens have no subject",
                "none");
  }
  if (ways == 0 && !is_of_jwt) {
    value.Error("tokens, names or claims, by which the caller is recognised",
                "none");
  }
}

void PolicyReader::ReadAnonymous(const YamlValue& value) {
  const std::optional<YamlValue::Entries> fields =
      value.Map({"requests_per_second", "burst", "concurrent", "priority"});
  if (!fields.has_value()) return;
  for (const auto& [field, one] : *fields) {
    ReadShare(field, one, *policy_.anonymous_);
  }
  CheckLimits(value, policy_.anonymous_->limits);
}

bool PolicyReader::ReadShare(const std::string& field, const YamlValue& value,
                             Caller& caller) {
  if (ReadLimit(field, value, caller.limits)) return true;
  if (field == "per_subject") {
    ReadSubjectLimits(value, caller);
  } else if (field == "priority") {
    caller.priority =
        static_cast<uint64_t>(value.Int(1, kMaxPriority).value_or(1));
  } else {
    return false;
  }
  return true;
}

bool PolicyReader::ReadLimit(const std::string& field, const YamlValue& value,
                             std::optional<CallerLimits>& limits) {
  const auto made = [&limits]() -> CallerLimits& {
    return limits.has_value() ? *limits : limits.emplace();
  };
  const auto positive = [&value] {
    const std::optional<double> number = value.Number();
    // Also what is no number.
    if (number.has_value() && !(*number > 0 && *number <= kMaxRate)) {
      value.Error(absl::StrCat("a number above 0, at most ", kMaxRate));
    }
    return number.value_or(1);
  };
  if (field == "requests_per_second") {
    made().requests_per_second = positive();
  } else if (field == "burst") {
    made().burst = static_cast<double>(value.Int(1, kMaxRate).value_or(1));
  } else if (field == "concurrent") {
    value.ReadInt(1, kMaxRate, made().concurrent);
  } else {
    return false;
  }
  return true;
}

void PolicyReader::ReadSubjectLimits(const YamlValue& value, Caller& caller) {
  const std::optional<YamlValue::Entries> fields =
      value.Map({"requests_per_second", "burst", "concurrent"});
  if (!fields.has_value()) return;
  for (const auto& [field, one] : *fields) {
    ReadLimit(field, one, caller.subject_limits);
  }
  if (fields->empty()) value.Error("requests_per_second or concurrent", "none");
  CheckLimits(value, caller.subject_limits);
}

// Without a burst as much as a second brings, and one request at least.
void PolicyReader::CheckLimits(const YamlValue& value,
                               std::optional<CallerLimits>& limits) {
  if (!limits.has_value()) return;
  if (limits->requests_per_second == 0 && limits->burst > 0) {
    value.Error("requests_per_second beside burst", "none");
  }
  if (limits->burst == 0) {
    limits->burst = std::max(1.0, limits->requests_per_second);
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

void PolicyReader::ReadClaims(const Caller& caller, const YamlValue& value) {
  const std::optional<YamlValue::Entries> entries = value.MapOfNames();
  if (!entries.has_value()) return;
  AccessPolicy::ClaimSet claims;
  claims.caller = &caller;
  for (const auto& [name, one] : *entries) {
    if (one.text().empty()) one.Error("a text, the claim's value");
    claims.all.emplace_back(name, one.text());
  }
  if (entries->empty()) value.Error("at least one claim", "none");
  if (!policy_.jwt_.has_value()) {
    value.Error("jwt, at the top, by which tokens with claims are verified",
                "none");
  }
  policy_.claims_.push_back(std::move(claims));
}

void PolicyReader::ReadJwt(const YamlValue& value) {
  const std::optional<YamlValue::Entries> fields =
      value.Map({"jwks", "issuer", "audience", "caller"});
  if (!fields.has_value()) return;
  JwtRules rules;
  for (const auto& [field, one] : *fields) {
    if (one.text().empty()) one.Error("a text");
    if (field == "jwks") {
      // Beside the policy, wherever the server was started.
      rules.jwks = std::filesystem::path(path_).parent_path() / one.text();
    } else if (field == "issuer") {
      rules.issuer = one.text();
    } else if (field == "audience") {
      rules.audience = one.text();
    } else {
      rules.caller = one.text();
    }
  }
  for (const auto& [field, text] :
       {std::pair<const char*, const std::string&>("jwks", rules.jwks),
        {"issuer", rules.issuer},
        {"audience", rules.audience}}) {
    if (text.empty()) value.Error(field, "none");
  }
  policy_.jwt_ = std::move(rules);
}

absl::StatusOr<AccessPolicy> AccessPolicy::Parse(std::string_view text,
                                                 const std::string& path) {
  ASSIGN_OR_RETURN(const YAML::Node document, ParseYaml(text, path));
  return PolicyReader(path).Read(document);
}

absl::StatusOr<AccessPolicy> AccessPolicy::Read(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTrusted(path, kMaxPolicyBytes));
  return Parse(text, path);
}

}  // namespace stoker
