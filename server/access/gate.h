// Asks the policy in force about every call: who makes it, and whether he may.
// A file that changes is read again; calls and streams that are open are asked
// about by the new one from then on.
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
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "access/audit_log.h"
#include "access/policy.h"
#include "base/clock.h"
#include "base/reloaded_files.h"
#include "metrics/metrics.h"
#include "wire/peer.h"

namespace stoker {

// Who makes a call, by one policy. A value.
struct Identity {
  enum class Standing { kAnonymous, kKnown, kUnknownToken, kMalformed };

  Standing standing = Standing::kAnonymous;
  std::shared_ptr<const AccessPolicy> policy;
  uint64_t generation = 0;                       // the policy's
  const AccessPolicy::Caller* caller = nullptr;  // of the policy's
  absl::Time expires = absl::InfiniteFuture();
  std::optional<TokenHash> token;  // that was shown
};

// Who makes a call, for as long as it lasts. A value; any thread may look.
struct Visitor {
  std::shared_ptr<const Peer> peer;
  Identity identity;
};

class Gate {
 public:
  // INVALID_ARGUMENT or the system's code, with file, line and what was
  // expected. What is passed by reference outlives it.
  static absl::StatusOr<std::unique_ptr<Gate>> Open(const std::string& path,
                                                    MetricRegistry& metrics,
                                                    Clock& clock);

  // Reads the file again if it has changed. What is wrong is logged once, and
  // what was right stays in force. Every few seconds; one thread.
  void Look();

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
  Identity Identify(const Peer& peer, const std::string* authorization)
      ABSL_LOCKS_EXCLUDED(mu_);
  // By the policy in force, from what was shown before.
  Identity IdentifyAgain(const Peer& peer, const Identity& before)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Recognise(const Peer& peer, Identity& identity) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Decide(const Identity& identity, const Method& method,
                      const Target& target, const char*& reason) const;

  const std::string path_;
  MetricRegistry& metrics_;
  Clock& clock_;
  AuditLog audit_;
  ReloadedFiles file_;  // of Look

  std::atomic<uint64_t> generation_ = 0;
  absl::Mutex mu_;
  std::shared_ptr<const AccessPolicy> policy_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
