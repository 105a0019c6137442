#include "access/gate.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/constant_time.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"

namespace stoker {
namespace {

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

// What is counted stays as long as there are limits, whatever these are.
template <typename Load, typename Make>
void Keep(std::shared_ptr<Load>& load,
          const std::optional<CallerLimits>& limits, const Make& make) {
  if (!limits.has_value()) {
    load = nullptr;
    return;
  }
  if (load == nullptr) load = make();
  load->Limit(*limits);
}

}  // namespace

// What is known of the header that a connection's calls bring. Many users may
// share a connection, where a proxy keeps it: nobody finds out another's
// header from the time of the comparison.
class Gate::Memo final : public PeerNote {
 public:
  Memo(const std::string* authorization,
       std::shared_ptr<const Identity> identity)
      : has_header_(authorization != nullptr),
        header_(has_header_ ? *authorization : ""),
        identity_(std::move(identity)) {}

  bool IsOf(const std::string* authorization) const {
    if (authorization == nullptr) return !has_header_;
    return has_header_ && EqualInConstantTime(header_, *authorization);
  }
  const std::shared_ptr<const Identity>& identity() const { return identity_; }

 private:
  const bool has_header_;
  const std::string header_;
  const std::shared_ptr<const Identity> identity_;
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
  std::unique_ptr<ReloadedFiles> keys_file;
  std::shared_ptr<const JwkSet> keys;
  if (policy.jwt().has_value()) {
    keys_file = std::make_unique<ReloadedFiles>(
        std::vector<std::string>{policy.jwt()->jwks});
    ASSIGN_OR_RETURN(JwkSet read, JwkSet::Read(policy.jwt()->jwks));
    keys = std::make_shared<const JwkSet>(std::move(read));
  }
  log::Info("policy {}: {} known{}", path_, policy.callers(),
            keys == nullptr
                ? ""
                : absl::StrCat(", ", keys->size(), " keys of signed tokens"));
  keys_file_.swap(keys_file);
  Enforce(std::make_shared<const AccessPolicy>(std::move(policy)),
          std::move(keys));
  return absl::OkStatus();
}

absl::Status Gate::LoadKeys() {
  const std::shared_ptr<const AccessPolicy> same = policy();
  ASSIGN_OR_RETURN(JwkSet read, JwkSet::Read(same->jwt()->jwks));
  log::Info("{}: {} keys of signed tokens", same->jwt()->jwks, read.size());
  Enforce(same, std::make_shared<const JwkSet>(std::move(read)));
  return absl::OkStatus();
}

void Gate::CompareModels(const std::vector<std::string>& models) {
  std::shared_ptr<const AccessPolicy> current = policy();
  if (models.empty() || current == compared_) return;
  compared_ = std::move(current);
  const std::vector<std::string> unknown = compared_->UnknownModels(models);
  if (unknown.empty()) return;
  log::Warn("policy {}: expected names of models, found none that is {}", path_,
            absl::StrJoin(unknown, " or "));
}

Gate::Loads Gate::LoadsOf(const AccessPolicy& policy) {
  Loads before;
  {
    absl::MutexLock lock(&mu_);
    before = loads_;
  }
  Loads loads;
  for (const AccessPolicy::Caller* const caller : policy.LimitedCallers()) {
    const auto found = before.find(caller->name);
    CallerLoads of_caller;
    if (found != before.end()) of_caller = found->second;
    Keep(of_caller.all, caller->limits,
         [] { return std::make_shared<CallerLoad>(); });
    Keep(of_caller.of_subjects, caller->subject_limits, [&] {
      return std::make_shared<SubjectLoads>(metrics_.Counter(
          metric::kSubjectsForgotten, {{"caller", caller->name}}));
    });
    loads.emplace(caller->name, std::move(of_caller));
  }
  return loads;
}

void Gate::Enforce(std::shared_ptr<const AccessPolicy> policy,
                   std::shared_ptr<const JwkSet> keys) {
  decltype(signed_) before;  // dies outside the lock
  Loads loads = LoadsOf(*policy);
  absl::MutexLock lock(&mu_);
  policy_.swap(policy);
  loads_.swap(loads);
  keys_.swap(keys);
  signed_.swap(before);
  generation_.fetch_add(1, std::memory_order_release);
}

void Gate::LookAt(ReloadedFiles& file, absl::FunctionRef<absl::Status()> load,
                  const char* what) {
  const std::optional<absl::Status> loaded = file.Look(load);
  if (!loaded.has_value()) return;
  metrics_
      .Counter(metric::kPolicyReloads,
               {{"outcome", loaded->ok() ? "ok" : "failed"}})
      .Add();
  if (!loaded->ok()) {
    log::Error("the {} of before stays in force: {}", what,
               std::string(loaded->message()));
  }
}

void Gate::Look() {
  LookAt(
      file_, [this] { return Load(); }, "policy");
  if (keys_file_ == nullptr) return;
  LookAt(
      *keys_file_, [this] { return LoadKeys(); }, "key set");
}

std::shared_ptr<const AccessPolicy> Gate::policy() {
  absl::MutexLock lock(&mu_);
  return policy_;
}

Visitor Gate::Admit(std::shared_ptr<Peer> peer,
                    const std::string* authorization) {
  const auto* memo = static_cast<const Memo*>(peer->note.get());
  if (memo == nullptr || !memo->IsOf(authorization) ||
      memo->identity()->generation !=
          generation_.load(std::memory_order_acquire)) {
    auto fresh =
        std::make_unique<Memo>(authorization, Identify(*peer, authorization));
    memo = fresh.get();
    peer->note = std::move(fresh);
  }
  return Visitor(std::move(peer), memo->identity());
}

absl::Status Gate::Decide(const Identity& identity, const Method& method,
                          const Target& target, const char*& reason) const {
  switch (identity.standing) {
    case Identity::Standing::kUnknownToken:
      reason = "unknown_token";
      return absl::UnauthenticatedError(
          "expected a bearer token that the policy knows, got another");
    case Identity::Standing::kInvalidToken:
      reason = "invalid_token";
      return identity.complaint;
    case Identity::Standing::kMalformed:
      reason = "malformed";
      return absl::UnauthenticatedError(
          "expected 'authorization: Bearer TOKEN', got another form");
    case Identity::Standing::kAnonymous:
    case Identity::Standing::kKnown:
      break;
  }
  if (identity.not_before != absl::InfinitePast() &&
      clock_.WallNow() < identity.not_before) {
    reason = "invalid_token";
    return absl::UnauthenticatedError(
        absl::StrCat("expected a bearer token that is good already, got one "
                     "of '",
                     identity.caller->name, "' whose time (nbf) is to come"));
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

// By the policy's names: a token's subject, of which there may be any number,
// is for the log.
void Gate::CountRefusal(const Identity& identity, const char* reason) {
  metrics_
      .Counter(metric::kAccessRefused,
               {{"caller", identity.caller->name}, {"reason", reason}})
      .Add();
}

absl::Status Gate::Enter(const Visitor& visitor, const Method& method,
                         CallerPass& pass, absl::Duration& retry_after) {
  if (visitor.peer().within || method.group == MethodGroup::kHealth ||
      method.group == MethodGroup::kMetrics) {
    return absl::OkStatus();
  }
  const std::shared_ptr<const Identity> identity = Current(visitor);
  CallerPass of_caller, of_subject;
  if (identity->subjects != nullptr) {
    const auto load = identity->subjects->Of(*identity->subject_hash);
    RETURN_IF_ERROR(EnterLoad(*identity, *load, of_subject, retry_after));
  }
  if (identity->load != nullptr) {
    absl::Status entered =
        EnterLoad(*identity, *identity->load, of_caller, retry_after);
    if (!entered.ok()) {
      of_subject.TakeBack();
      return entered;
    }
  }
  of_caller.Join(std::move(of_subject));
  pass = std::move(of_caller);
  return absl::OkStatus();
}

absl::Status Gate::EnterLoad(const Identity& identity, CallerLoad& load,
                             CallerPass& pass, absl::Duration& retry_after) {
  const bool of_caller = &load == identity.load.get();
  const auto whose = [&] {
    std::string caller = absl::StrCat("caller '", identity.caller->name, "'");
    if (of_caller) return caller;
    return absl::StrCat("subject '", absl::CHexEscape(identity.subject),
                        "' of ", caller);
  };
  switch (load.Enter(clock_.Now(), pass, retry_after)) {
    case CallerLoad::Refusal::kNone:
      break;
    case CallerLoad::Refusal::kRate:
      CountRefusal(identity, of_caller ? "rate" : "subject_rate");
      return absl::ResourceExhaustedError(absl::StrCat(
          whose(), " may ask for ", load.limits().requests_per_second,
          " requests a second, and has asked for more: try again "
          "later"));
    case CallerLoad::Refusal::kConcurrent:
      CountRefusal(identity, of_caller ? "concurrent" : "subject_concurrent");
      return absl::ResourceExhaustedError(absl::StrCat(
          whose(), " may have ", load.limits().concurrent,
          " requests under way, and has as many: try again later"));
  }
  return absl::OkStatus();
}

absl::Status Gate::Check(const Visitor& visitor, const Method& method,
                         const Target& target) {
  const Peer& peer = visitor.peer();
  if (peer.within) return absl::OkStatus();
  const std::shared_ptr<const Identity> identity = Current(visitor);
  const char* reason = nullptr;
  absl::Status decided = Decide(*identity, method, target, reason);
  if (decided.ok()) return decided;
  CountRefusal(*identity, reason);
  audit_.Refusal({identity->caller->name, peer.shown(), method, target.model,
                  identity->subject},
                 absl::IsPermissionDenied(decided)
                     ? AuditLog::Standing::kKnown
                     : AuditLog::Standing::kAnybody,
                 reason);
  return decided;
}

// Where the policy lets anybody change the server, he vouches for nothing.
void Gate::LogChange(const Visitor& visitor, const Method& method,
                     std::string_view object) {
  const std::shared_ptr<const Identity> identity = visitor.identity();
  const bool known = identity->standing == Identity::Standing::kKnown;
  audit_.Change(
      {identity->caller->name, visitor.peer().shown(), method, object,
       identity->subject},
      known ? AuditLog::Standing::kKnown : AuditLog::Standing::kAnybody);
}

}  // namespace stoker
