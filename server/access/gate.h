// Asks the policy in force about every call: who makes it, and whether he may.
// A file that changes is read again; whoever asks again about a call that is
// open is answered by the new one from then on.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "access/audit_log.h"
#include "access/caller_load.h"
#include "access/jwk_set.h"
#include "access/policy.h"
#include "access/subject_loads.h"
#include "base/clock.h"
#include "base/reloaded_files.h"
#include "metrics/metrics.h"
#include "wire/peer.h"

namespace stoker {

// Who makes a call, by one policy. A value.
struct Identity {
  enum class Standing {
    kAnonymous,
    kKnown,
    kUnknownToken,
    kInvalidToken,  // `complaint` says why
    kMalformed
  };

  Standing standing = Standing::kAnonymous;
  std::shared_ptr<const AccessPolicy> policy;
  uint64_t generation = 0;                       // the policy's
  const AccessPolicy::Caller* caller = nullptr;  // of the policy's
  absl::Time not_before = absl::InfinitePast();
  absl::Time expires = absl::InfiniteFuture();
  std::string subject;  // of a signed token; may be empty, or cut
  std::optional<TokenHash> subject_hash;  // of all of it
  std::shared_ptr<CallerLoad> load;       // null: he has no limits
  // Where the subject's load is found; null: subjects have no limits.
  std::shared_ptr<SubjectLoads> subjects;
  absl::Status complaint;
  // That was shown; of a signed one also itself.
  std::optional<TokenHash> token;
  std::shared_ptr<const std::string> signed_token;
};

// Who makes a call, for as long as it lasts; thread-safe.
class Visitor {
 public:
  Visitor(std::shared_ptr<const Peer> peer,
          std::shared_ptr<const Identity> identity)
      : peer_(std::move(peer)), identity_(std::move(identity)) {}

  const Peer& peer() const { return *peer_; }
  // By the policy that was in force when he was last asked about.
  std::shared_ptr<const Identity> identity() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return identity_;
  }

 private:
  friend class Gate;
  void Become(std::shared_ptr<const Identity> identity) const
      ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    identity_.swap(identity);
  }

  const std::shared_ptr<const Peer> peer_;
  mutable absl::Mutex mu_;
  mutable std::shared_ptr<const Identity> identity_ ABSL_GUARDED_BY(mu_);
};

class Gate {
 public:
  // INVALID_ARGUMENT or the system's code, with file, line and what was
  // expected. What is passed by reference outlives it.
  static absl::StatusOr<std::unique_ptr<Gate>> Open(const std::string& path,
                                                    MetricRegistry& metrics,
                                                    Clock& clock);

  // Reads the files again, the policy's and that of its keys, if they have
  // changed. What is wrong is logged once, and what was right stays in force.
  // Every few seconds; one thread.
  void Look();

  // Warns of rules about models that none of these is, once for each policy.
  // Likewise.
  void CompareModels(const std::vector<std::string>& models)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Who makes a call. `authorization`: the header's value; null: there is none.
  // On the peer's loop; what it finds out is kept with the peer, so that the
  // next call with the same header costs a comparison.
  Visitor Admit(std::shared_ptr<Peer> peer, const std::string* authorization)
      ABSL_LOCKS_EXCLUDED(mu_);

  // UNAUTHENTICATED: who shows nothing that the policy knows would have to;
  // PERMISSION_DENIED: who is known may not. Both are counted and logged, and
  // name the caller and the group.
  absl::Status Check(const Visitor& visitor, const Method& method,
                     const Target& target) ABSL_LOCKS_EXCLUDED(mu_);

  // Counts a request of a call that has passed, until `pass` is gone.
  // RESOURCE_EXHAUSTED: the caller has asked for too much, and may try again
  // after `retry_after`. Calls of health's and metrics' groups are not counted.
  absl::Status Enter(const Visitor& visitor, const Method& method,
                     CallerPass& pass, absl::Duration& retry_after)
      ABSL_LOCKS_EXCLUDED(mu_);

  // A call that changes the server has passed.
  void LogChange(const Visitor& visitor, const Method& method,
                 std::string_view object);

  std::shared_ptr<const AccessPolicy> policy() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Memo;

  Gate(std::string path, MetricRegistry& metrics, Clock& clock)
      : path_(std::move(path)),
        metrics_(metrics),
        clock_(clock),
        audit_(clock),
        file_({path_}) {}

  absl::Status Load() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status LoadKeys() ABSL_LOCKS_EXCLUDED(mu_);
  void LookAt(ReloadedFiles& file, absl::FunctionRef<absl::Status()> load,
              const char* what);
  // What a caller asks for who has limits, and his subjects; null: they have
  // none.
  struct CallerLoads {
    std::shared_ptr<CallerLoad> all;
    std::shared_ptr<SubjectLoads> of_subjects;
  };
  // By name; those that stay keep what is counted.
  using Loads = absl::flat_hash_map<std::string, CallerLoads>;
  Loads LoadsOf(const AccessPolicy& policy) ABSL_LOCKS_EXCLUDED(mu_);
  void Enforce(std::shared_ptr<const AccessPolicy> policy,
               std::shared_ptr<const JwkSet> keys) ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<const Identity> Identify(const Peer& peer,
                                           const std::string* authorization)
      ABSL_LOCKS_EXCLUDED(mu_);
  // By the policy in force, from what was shown before.
  std::shared_ptr<const Identity> IdentifyAgain(const Peer& peer,
                                                const Identity& before)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Recognise(const Peer& peer, Identity& identity) ABSL_LOCKS_EXCLUDED(mu_);
  // The visitor's by the policy in force.
  std::shared_ptr<const Identity> Current(const Visitor& visitor)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Of everybody who is known, and of anonymous.
  void FindLoads(Identity& identity) ABSL_LOCKS_EXCLUDED(mu_);
  // Into the identity's load or its subject's.
  absl::Status EnterLoad(const Identity& identity, CallerLoad& load,
                         CallerPass& pass, absl::Duration& retry_after);
  void RecogniseToken(Identity& identity, const JwkSet* keys)
      ABSL_LOCKS_EXCLUDED(mu_);
  static void RecogniseSigned(Identity& identity, const JwkSet& keys);
  // What was found out about a signed token, for the next connection that
  // shows it. False: nothing.
  bool Recall(Identity& identity) ABSL_LOCKS_EXCLUDED(mu_);
  void Remember(const Identity& identity) ABSL_LOCKS_EXCLUDED(mu_);
  void CountRefusal(const Identity& identity, const char* reason);
  absl::Status Decide(const Identity& identity, const Method& method,
                      const Target& target, const char*& reason) const;

  const std::string path_;
  MetricRegistry& metrics_;
  Clock& clock_;
  AuditLog audit_;
  // Of Look.
  ReloadedFiles file_;
  std::unique_ptr<ReloadedFiles> keys_file_;  // null: the policy has none
  std::shared_ptr<const AccessPolicy> compared_;

  std::atomic<uint64_t> generation_ = 0;
  absl::Mutex mu_;
  std::shared_ptr<const AccessPolicy> policy_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const JwkSet> keys_ ABSL_GUARDED_BY(mu_);  // null: likewise
  Loads loads_ ABSL_GUARDED_BY(mu_);
  // Good ones that came, by what is in force.
  absl::flat_hash_map<TokenHash, std::shared_ptr<const Identity>> signed_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
