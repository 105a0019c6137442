// The half of Gate that finds out who calls.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "access/gate.h"
#include "access/jwt.h"

namespace stoker {
namespace {

// Signed tokens that came; their owners are many where a proxy mixes them.
constexpr size_t kMaxRemembered = 4096;

// More of a subject is not shown.
constexpr size_t kMaxSubject = 256;

// "Bearer TOKEN"; nullopt: it is anything else. Of the scheme's letters either
// case will do.
std::optional<std::string_view> TokenOf(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size()) return std::nullopt;
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if (absl::ascii_tolower(static_cast<unsigned char>(authorization[i])) !=
        kScheme[i]) {
      return std::nullopt;
    }
  }
  const std::string_view token = authorization.substr(kScheme.size());
  if (!CheckToken(token).ok()) return std::nullopt;
  return token;
}

}  // namespace

void Gate::Recognise(const Peer& peer, Identity& identity) {
  std::shared_ptr<const JwkSet> keys;
  {
    absl::MutexLock lock(&mu_);
    identity.policy = policy_;
    keys = keys_;
    identity.generation = generation_.load(std::memory_order_relaxed);
  }
  identity.caller = &identity.policy->anonymous();
  if (identity.standing == Identity::Standing::kMalformed) return;
  if (identity.token.has_value()) {
    RecogniseToken(identity, keys.get());
  } else if (const AccessPolicy::Caller* const named =
                 identity.policy->FindNamed(peer.names)) {
    identity.standing = Identity::Standing::kKnown;
    identity.caller = named;
  }
  FindLoads(identity);
}

void Gate::FindLoads(Identity& identity) {
  CallerLoads loads;
  {
    absl::MutexLock lock(&mu_);
    const auto found = loads_.find(identity.caller->name);
    if (found != loads_.end()) loads = found->second;
  }
  identity.load = std::move(loads.all);
  identity.subjects = identity.subject_hash.has_value()
                          ? std::move(loads.of_subjects)
                          : nullptr;
}

void Gate::RecogniseToken(Identity& identity, const JwkSet* keys) {
  const AccessPolicy::Token* const token =
      identity.policy->FindToken(*identity.token);
  if (token != nullptr) {
    identity.standing = Identity::Standing::kKnown;
    identity.caller = token->caller;
    identity.expires = token->expires;
  } else if (identity.signed_token == nullptr || keys == nullptr) {
    identity.standing = Identity::Standing::kUnknownToken;
  } else if (!Recall(identity)) {
    RecogniseSigned(identity, *keys);
    if (identity.standing == Identity::Standing::kKnown) Remember(identity);
  }
}

void Gate::RecogniseSigned(Identity& identity, const JwkSet& keys) {
  const absl::StatusOr<Jwt> token =
      Jwt::Verify(*identity.signed_token, keys, *identity.policy->jwt());
  const AccessPolicy::Caller* const caller =
      token.ok() ? identity.policy->FindClaiming(*token) : nullptr;
  if (caller == nullptr) {
    identity.standing = Identity::Standing::kInvalidToken;
    identity.complaint =
        token.ok() ? absl::UnauthenticatedError(
                         "expected a JWT with the claims of a caller whom the "
                         "policy knows, got others")
                   : token.status();
    return;
  }
  identity.standing = Identity::Standing::kKnown;
  identity.caller = caller;
  identity.not_before = token->not_before();
  identity.expires = token->expires();
  identity.subject = token->subject().substr(0, kMaxSubject);
  identity.subject_hash = HashToken(token->subject());
}

bool Gate::Recall(Identity& identity) {
  std::shared_ptr<const Identity> known;
  {
    absl::MutexLock lock(&mu_);
    const auto found = signed_.find(*identity.token);
    if (found == signed_.end()) return false;
    known = found->second;
  }
  if (known->generation != identity.generation) return false;
  identity = *known;
  return true;
}

// Only good ones: whoever has none can't crowd out those of others.
void Gate::Remember(const Identity& identity) {
  auto known = std::make_shared<const Identity>(identity);
  decltype(signed_) before;  // dies outside the lock
  absl::MutexLock lock(&mu_);
  if (known->generation != generation_.load(std::memory_order_relaxed)) return;
  if (signed_.size() >= kMaxRemembered) signed_.swap(before);
  signed_[*known->token] = std::move(known);
}

std::shared_ptr<const Identity> Gate::Identify(
    const Peer& peer, const std::string* authorization) {
  auto identity = std::make_shared<Identity>();
  if (authorization != nullptr) {
    const std::optional<std::string_view> token = TokenOf(*authorization);
    if (token.has_value()) {
      identity->token = HashToken(*token);
      if (Jwt::IsOne(*token)) {
        identity->signed_token = std::make_shared<const std::string>(*token);
      }
    } else {
      identity->standing = Identity::Standing::kMalformed;
    }
  }
  Recognise(peer, *identity);
  return identity;
}

std::shared_ptr<const Identity> Gate::IdentifyAgain(const Peer& peer,
                                                    const Identity& before) {
  auto identity = std::make_shared<Identity>();
  identity->token = before.token;
  identity->signed_token = before.signed_token;
  if (before.standing == Identity::Standing::kMalformed) {
    identity->standing = before.standing;
  }
  Recognise(peer, *identity);
  return identity;
}

std::shared_ptr<const Identity> Gate::Current(const Visitor& visitor) {
  std::shared_ptr<const Identity> identity = visitor.identity();
  if (identity->generation != generation_.load(std::memory_order_acquire)) {
    identity = IdentifyAgain(visitor.peer(), *identity);
    visitor.Become(identity);
  }
  return identity;
}

}  // namespace stoker
