#include "access/jwt.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "access/audit_log.h"
#include "base/absl_view.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using nlohmann::json;

absl::Status Wrong(std::string_view expected, std::string_view got) {
  return absl::UnauthenticatedError(
      absl::StrCat("expected a JWT ", Absl(expected), ", got ", Absl(got)));
}

// A part that is an object in JSON.
absl::StatusOr<json> ReadPart(std::string_view text, const char* name) {
  const std::optional<std::string> bytes = DecodeBase64Url(text);
  json part;
  if (bytes.has_value()) part = ReadJson(*bytes);
  if (part.is_object()) return part;
  return Wrong(absl::StrCat("whose ", name, " is a JSON object in base64url"),
               "another");
}

const json* Find(const json& object, const std::string& name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// A claim by its name, or by the path to it.
const json* FindClaim(const json& claims, std::string_view name) {
  if (const json* found = Find(claims, std::string(name))) return found;
  const json* at = &claims;
  for (const absl::string_view step : absl::StrSplit(Absl(name), '.')) {
    if (!at->is_object()) return nullptr;
    at = Find(*at, std::string(step));
    if (at == nullptr) return nullptr;
  }
  return at;
}

bool IsText(const json& value, std::string_view text) {
  return value.is_string() && value.get_ref<const std::string&>() == text;
}

bool IsOrHas(const json& value, std::string_view text) {
  if (!value.is_array()) return IsText(value, text);
  return std::any_of(value.begin(), value.end(),
                     [text](const json& one) { return IsText(one, text); });
}

// Seconds since 1970; nullopt: it is no number.
std::optional<absl::Time> TimeOf(const json& value) {
  if (!value.is_number()) return std::nullopt;
  return absl::UnixEpoch() + absl::Seconds(value.get<double>());
}

}  // namespace

Jwt::Jwt(json claims) : claims_(std::make_unique<json>(std::move(claims))) {}
Jwt::Jwt(Jwt&&) noexcept = default;
Jwt::~Jwt() = default;

bool Jwt::IsOne(std::string_view token) {
  return std::count(token.begin(), token.end(), '.') == 2;
}

absl::StatusOr<Jwt> Jwt::Verify(std::string_view token, const JwkSet& keys,
                                const JwtRules& rules) {
  const std::vector<absl::string_view> parts = absl::StrSplit(Absl(token), '.');
  if (parts.size() != 3) {
    return Wrong("of three parts", absl::StrCat(parts.size()));
  }
  ASSIGN_OR_RETURN(const json header, ReadPart(Std(parts[0]), "header"));
  const json* const algorithm = Find(header, "alg");
  if (algorithm == nullptr || !algorithm->is_string()) {
    return Wrong("whose header has an alg", "none");
  }
  // What has to be understood is not.
  if (header.contains("crit")) return Wrong("without crit", "one with it");
  std::optional<std::string> key_id;
  if (const json* const kid = Find(header, "kid")) {
    if (!kid->is_string()) return Wrong("whose kid is a text", "another");
    key_id = kid->get<std::string>();
  }
  const std::optional<std::string> signature = DecodeBase64Url(Std(parts[2]));
  if (!signature.has_value()) {
    return Wrong("whose signature is base64url", "another");
  }
  RETURN_IF_ERROR(keys.Verify(
      algorithm->get_ref<const std::string&>(), key_id,
      token.substr(0, parts[0].size() + 1 + parts[1].size()), *signature));
  ASSIGN_OR_RETURN(json claims, ReadPart(Std(parts[1]), "payload"));
  Jwt jwt(std::move(claims));
  RETURN_IF_ERROR(jwt.Read(rules));
  return jwt;
}

absl::Status Jwt::Read(const JwtRules& rules) {
  const json* const issuer = Find(*claims_, "iss");
  if (issuer == nullptr || !IsText(*issuer, rules.issuer)) {
    return Wrong("of the policy's issuer (iss)",
                 issuer == nullptr ? "none" : "another's");
  }
  const json* const audience = Find(*claims_, "aud");
  if (audience == nullptr || !IsOrHas(*audience, rules.audience)) {
    return Wrong("for the policy's audience (aud)",
                 audience == nullptr ? "none" : "another");
  }
  const json* const expiry = Find(*claims_, "exp");
  const std::optional<absl::Time> end =
      expiry == nullptr ? std::nullopt : TimeOf(*expiry);
  if (!end.has_value()) return Wrong("that expires (exp, a number)", "none");
  expires_ = *end + kLeeway;
  if (const json* const start = Find(*claims_, "nbf")) {
    const std::optional<absl::Time> begin = TimeOf(*start);
    if (!begin.has_value()) return Wrong("whose nbf is a number", "another");
    not_before_ = *begin - kLeeway;
  }
  if (const json* const subject = Find(*claims_, "sub")) {
    if (subject->is_string()) subject_ = subject->get<std::string>();
  }
  return absl::OkStatus();
}

bool Jwt::Claims(std::string_view name, std::string_view value) const {
  const json* const claim = FindClaim(*claims_, name);
  if (claim == nullptr) return false;
  if ((name == "scope" || name == "scp") && claim->is_string()) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(claim->get_ref<const std::string&>(), ' ');
    return std::find(words.begin(), words.end(), Absl(value)) != words.end();
  }
  return IsOrHas(*claim, value);
}

}  // namespace stoker
