#include "access/policy.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/constant_time.h"
#include "base/sha256.h"

namespace stoker {
namespace {

std::string_view BytesOf(const TokenHash& hash) {
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};
}

bool Covers(const AccessPolicy::Rule& rule, const Target& target) {
  switch (target.models) {
    case Target::Models::kNone:
      return true;
    case Target::Models::kOne:
      return std::any_of(rule.models.begin(), rule.models.end(),
                         [&](const ModelPattern& pattern) {
                           return pattern.Matches(target.model);
                         });
    case Target::Models::kAll:
      return std::any_of(
          rule.models.begin(), rule.models.end(),
          [](const ModelPattern& pattern) { return pattern.matches_all(); });
  }
  return false;
}

}  // namespace

TokenHash HashToken(std::string_view token) {
  const std::string bytes = absl::HexStringToBytes(Sha256Hex(token));
  TokenHash hash = {};
  std::copy(bytes.begin(), bytes.end(), hash.begin());
  return hash;
}

absl::Status CheckToken(std::string_view token) {
  if (token.empty() || token.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a token of 1 to ", kMaxTokenBytes,
                     " bytes, got ", token.size()));
  }
  const bool visible = std::all_of(token.begin(), token.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (visible) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "expected a token of visible ASCII characters without spaces, got "
      "others");
}

AccessPolicy::AccessPolicy() = default;
AccessPolicy::AccessPolicy(AccessPolicy&&) noexcept = default;
AccessPolicy::~AccessPolicy() = default;

const AccessPolicy::Token* AccessPolicy::FindToken(
    const TokenHash& hash) const {
  const Token* found = nullptr;
  for (const Token& token : tokens_) {
    if (EqualInConstantTime(BytesOf(token.hash), BytesOf(hash))) {
      found = &token;
    }
  }
  return found;
}

const AccessPolicy::Caller* AccessPolicy::FindNamed(
    absl::Span<const std::string> names) const {
  for (const std::string& name : names) {
    const auto found = names_.find(absl::AsciiStrToLower(name));
    if (found != names_.end()) return found->second;
  }
  return nullptr;
}

std::vector<const AccessPolicy::Caller*> AccessPolicy::LimitedCallers() const {
  std::vector<const Caller*> limited;
  if (anonymous_->limits.has_value()) limited.push_back(anonymous_.get());
  for (const auto& caller : callers_) {
    if (caller->limits.has_value() || caller->subject_limits.has_value()) {
      limited.push_back(caller.get());
    }
  }
  return limited;
}

const AccessPolicy::Caller* AccessPolicy::FindClaiming(const Jwt& token) const {
  for (const ClaimSet& claims : claims_) {
    const bool has_all = std::all_of(
        claims.all.begin(), claims.all.end(), [&token](const auto& claim) {
          return token.Claims(claim.first, claim.second);
        });
    if (has_all) return claims.caller;
  }
  return of_jwt_;
}

std::vector<std::string> AccessPolicy::UnknownModels(
    absl::Span<const std::string> models) const {
  std::vector<std::string> unknown;
  for (const std::unique_ptr<Rule>& rule : rules_) {
    for (const ModelPattern& pattern : rule->models) {
      const bool known = std::any_of(
          models.begin(), models.end(),
          [&](const std::string& model) { return pattern.Matches(model); });
      if (known) continue;
      unknown.push_back(absl::StrCat("'", absl::CHexEscape(pattern.text()),
                                     "' (", rule->name, ")"));
    }
  }
  return unknown;
}

const AccessPolicy::Rule* AccessPolicy::Grant(const Caller& caller,
                                              MethodGroup group,
                                              const Target& target) {
  for (const Rule* rule : caller.rules[static_cast<size_t>(group)]) {
    if (Covers(*rule, target)) return rule;
  }
  return nullptr;
}

}  // namespace stoker
