// Who may do what: callers, how each is recognised, and rules that grant groups
// of methods on models to them. What no rule grants is refused.
//
// Immutable once read.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "access/caller_load.h"
#include "access/jwt.h"
#include "access/method.h"
#include "access/model_pattern.h"

namespace stoker {

// SHA-256 of a token's bytes.
using TokenHash = std::array<uint8_t, 32>;
TokenHash HashToken(std::string_view token);
// INVALID_ARGUMENT: nothing that a header could carry, or longer than
// kMaxTokenBytes. Never shows the token.
inline constexpr size_t kMaxTokenBytes = 8192;
absl::Status CheckToken(std::string_view token);

// What a call is about besides its method.
struct Target {
  enum class Models {
    kNone,  // no model: health of the server, reflection
    kOne,
    kAll,  // all that there are, in one answer
  };
  Models models = Models::kNone;
  std::string_view model;  // kOne

  static Target Server() { return {}; }
  static Target Every() { return {Models::kAll, ""}; }
  static Target Of(std::string_view model) { return {Models::kOne, model}; }
};

class AccessPolicy {
 public:
  // Of who shows nothing that the policy knows; what is granted to it is
  // granted to all.
  static constexpr char kAnonymous[] = "anonymous";

  struct Rule {
    std::string name;  // or "rule 2", by its place
    std::vector<ModelPattern> models;
  };
  struct Caller {
    std::string name;
    std::optional<CallerLimits> limits;
    // Of each subject of his JWTs, below those.
    std::optional<CallerLimits> subject_limits;
    // That his requests have which give none, and the most urgent one that he
    // gets; 0: whatever they give.
    uint64_t priority = 0;
    // Of each group, those that grant it.
    std::array<std::vector<const Rule*>, kMethodGroups> rules;
  };
  struct Token {
    TokenHash hash = {};
    const Caller* caller = nullptr;
    absl::Time expires = absl::InfiniteFuture();
  };
  // Of signed tokens: names and values, all of which one has to have.
  struct ClaimSet {
    std::vector<std::pair<std::string, std::string>> all;
    const Caller* caller = nullptr;
  };

  // INVALID_ARGUMENT: every mistake with file, line, what was expected and
  // what came. No error shows a token.
  static absl::StatusOr<AccessPolicy> Parse(std::string_view text,
                                            const std::string& path);
  // The same of a file, which others than its owner's group may not write.
  static absl::StatusOr<AccessPolicy> Read(const std::string& path);

  AccessPolicy(AccessPolicy&&) noexcept;
  AccessPolicy& operator=(AccessPolicy&&) = delete;
  ~AccessPolicy();

  const Caller& anonymous() const { return *anonymous_; }
  // Null: nobody's. Takes as long whichever hash is asked for.
  const Token* FindToken(const TokenHash& hash) const;
  // By the names of a certificate; null: nobody has one of them.
  const Caller* FindNamed(absl::Span<const std::string> names) const;
  // By the claims of a token; the first in the file of several, null: nobody
  // has them.
  const Caller* FindClaiming(const Jwt& token) const;
  // How tokens are verified that a provider has signed; nullopt: there are
  // none.
  const std::optional<JwtRules>& jwt() const { return jwt_; }
  // Whether some caller is recognised by a certificate.
  bool uses_names() const { return !names_.empty(); }
  size_t callers() const { return callers_.size(); }
  // Of all callers, anonymous included, those that have limits of either kind.
  std::vector<const Caller*> LimitedCallers() const;

  // What rules say of models that none of these is, with the rule's name:
  // "'bret' (rule 2)".
  std::vector<std::string> UnknownModels(
      absl::Span<const std::string> models) const;

  // The rule that grants it; null: none does.
  static const Rule* Grant(const Caller& caller, MethodGroup group,
                           const Target& target);

 private:
  friend class PolicyReader;
  AccessPolicy();

  // Held by pointers.
  std::vector<std::unique_ptr<Rule>> rules_;
  std::vector<std::unique_ptr<Caller>> callers_;  // without anonymous
  std::unique_ptr<Caller> anonymous_;
  std::vector<Token> tokens_;
  std::optional<JwtRules> jwt_;
  std::vector<ClaimSet> claims_;
  const Caller* of_jwt_ = nullptr;  // of whom no claims say who he is
  absl::flat_hash_map<std::string, const Caller*> names_;  // in lower case
};

}  // namespace stoker
