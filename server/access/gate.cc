#include "access/gate.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/constant_time.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"

namespace stoker {
namespace {

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

// "may not call ModelInfer (group infer) on model 'minilm'"
std::string MayNot(const Method& method, const Target& target) {
  std::string text = absl::StrCat("may not call ", Absl(method.name()),
                                  " (group ", NameOf(method.group), ")");
  if (target.models == Target::Models::kOne) {
    absl::StrAppend(&text, " on model '", ShownName(target.model), "'");
  } else if (target.models == Target::Models::kAll) {
    absl::StrAppend(&text, " on all models");
  }
  return text;
}

}  // namespace

// What is known of the header that a connection's calls bring. Many users may
// share a connection, where a proxy keeps it: nobody finds out another's
// header from the time of the comparison.
class Gate::Memo final : public PeerNote {
 public:
  Memo(const std::string* authorization, Identity identity)
      : has_header_(authorization != nullptr),
        header_(has_header_ ? *authorization : ""),
        identity_(std::move(identity)) {}

  bool IsOf(const std::string* authorization) const {
    if (authorization == nullptr) return !has_header_;
    return has_header_ && EqualInConstantTime(header_, *authorization);
  }
  const Identity& identity() const { return identity_; }

 private:
  const bool has_header_;
  const std::string header_;
  const Identity identity_;
};

absl::StatusOr<std::unique_ptr<Gate>> Gate::Open(const std::string& path,
                                                 MetricRegistry& metrics,
                                                 Clock& clock) {
  std::unique_ptr<Gate> gate(new Gate(path, metrics, clock));
  RETURN_IF_ERROR(gate->Load());
  return gate;
}

absl::Status Gate::Load() {
  ASSIGN_OR_RETURN(AccessPolicy policy, AccessPolicy::Read(path_));
  log::Info("policy {}: {} known", path_, policy.callers());
  auto shared = std::make_shared<const AccessPolicy>(std::move(policy));
  absl::MutexLock lock(&mu_);
  policy_.swap(shared);
  generation_.fetch_add(1, std::memory_order_release);
  return absl::OkStatus();
}

void Gate::Look() {
  const std::optional<absl::Status> loaded =
      file_.Look([this] { return Load(); });
  if (!loaded.has_value()) return;
  metrics_
      .Counter(metric::kPolicyReloads,
               {{"outcome", loaded->ok() ? "ok" : "failed"}})
      .Add();
  if (!loaded->ok()) {
    log::Error("the policy of before stays in force: {}",
               std::string(loaded->message()));
  }
}

std::shared_ptr<const AccessPolicy> Gate::policy() {
  absl::MutexLock lock(&mu_);
  return policy_;
}

void Gate::Recognise(const Peer& peer, Identity& identity) {
  {
    absl::MutexLock lock(&mu_);
    identity.policy = policy_;
    identity.generation = generation_.load(std::memory_order_relaxed);
  }
  identity.caller = &identity.policy->anonymous();
  if (identity.standing == Identity::Standing::kMalformed) return;
  if (identity.token.has_value()) {
    const AccessPolicy::Token* const token =
        identity.policy->FindToken(*identity.token);
    identity.standing = token == nullptr ? Identity::Standing::kUnknownToken
                                         : Identity::Standing::kKnown;
    if (token == nullptr) return;
    identity.caller = token->caller;
    identity.expires = token->expires;
  } else if (const AccessPolicy::Caller* const named =
                 identity.policy->FindNamed(peer.names)) {
    identity.standing = Identity::Standing::kKnown;
    identity.caller = named;
  }
}

Identity Gate::Identify(const Peer& peer, const std::string* authorization) {
  Identity identity;
  if (authorization != nullptr) {
    const std::optional<std::string_view> token = TokenOf(*authorization);
    if (token.has_value()) {
      identity.token = HashToken(*token);
    } else {
      identity.standing = Identity::Standing::kMalformed;
    }
  }
  Recognise(peer, identity);
  return identity;
}

Identity Gate::IdentifyAgain(const Peer& peer, const Identity& before) {
  Identity identity;
  identity.token = before.token;
  if (before.standing == Identity::Standing::kMalformed) {
    identity.standing = before.standing;
  }
  Recognise(peer, identity);
  return identity;
}

Visitor Gate::Admit(std::shared_ptr<Peer> peer,
                    const std::string* authorization) {
  const auto* memo = static_cast<const Memo*>(peer->note.get());
  if (memo == nullptr || !memo->IsOf(authorization) ||
      memo->identity().generation !=
          generation_.load(std::memory_order_acquire)) {
    auto fresh =
        std::make_unique<Memo>(authorization, Identify(*peer, authorization));
    memo = fresh.get();
    peer->note = std::move(fresh);
  }
  return {std::move(peer), memo->identity()};
}

absl::Status Gate::Decide(const Identity& identity, const Method& method,
                          const Target& target, const char*& reason) const {
  switch (identity.standing) {
    case Identity::Standing::kUnknownToken:
      reason = "unknown_token";
      return absl::UnauthenticatedError(
          "expected a bearer token that the policy knows, got another");
    case Identity::Standing::kMalformed:
      reason = "malformed";
      return absl::UnauthenticatedError(
          "expected 'authorization: Bearer TOKEN', got another form");
    case Identity::Standing::kAnonymous:
    case Identity::Standing::kKnown:
      break;
  }
  if (identity.expires != absl::InfiniteFuture() &&
      clock_.WallNow() >= identity.expires) {
    reason = "expired";
    return absl::UnauthenticatedError(
        absl::StrCat("expected a bearer token that is still good, got one of '",
                     identity.caller->name, "' that has expired"));
  }
  if (AccessPolicy::Grant(*identity.caller, method.group, target) != nullptr) {
    return absl::OkStatus();
  }
  const std::string what =
      absl::StrCat("'", identity.caller->name, "' ", MayNot(method, target));
  if (identity.standing == Identity::Standing::kKnown) {
    reason = "permission";
    return absl::PermissionDeniedError(absl::StrCat("caller ", what));
  }
  reason = "no_credentials";
  return absl::UnauthenticatedError(absl::StrCat(
      "caller ", what,
      ": expected 'authorization: Bearer TOKEN' or a client certificate, of "
      "somebody whom the policy knows"));
}

absl::Status Gate::Check(const Visitor& visitor, const Method& method,
                         const Target& target) {
  const Peer& peer = *visitor.peer;
  if (peer.within) return absl::OkStatus();
  Identity fresh;
  const Identity* identity = &visitor.identity;
  if (identity->generation != generation_.load(std::memory_order_acquire)) {
    fresh = IdentifyAgain(peer, *identity);
    identity = &fresh;
  }
  const char* reason = nullptr;
  absl::Status decided = Decide(*identity, method, target, reason);
  if (decided.ok()) return decided;
  metrics_.Counter(metric::kAccessRefused, {{"reason", reason}}).Add();
  audit_.Refusal({identity->caller->name, peer.shown(), method, target.model},
                 absl::IsPermissionDenied(decided)
                     ? AuditLog::Standing::kKnown
                     : AuditLog::Standing::kAnybody,
                 reason);
  return decided;
}

// Where the policy lets anybody change the server, he vouches for nothing.
void Gate::LogChange(const Visitor& visitor, const Method& method,
                     std::string_view object) {
  const bool known = visitor.identity.standing == Identity::Standing::kKnown;
  audit_.Change(
      {visitor.identity.caller->name, visitor.peer->shown(), method, object},
      known ? AuditLog::Standing::kKnown : AuditLog::Standing::kAnybody);
}

}  // namespace stoker
