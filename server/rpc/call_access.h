// One call before the policy: who makes it, and whether it may be about this or
// that.
//
// Thread-safe. The gate outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "access/caller_load.h"
#include "access/gate.h"
#include "access/method.h"
#include "access/policy.h"
#include "rpc/status_mapping.h"
#include "wire/call.h"
#include "wire/http_call.h"

namespace stoker {

class CallAccess {
 public:
  // `gate` null: everybody may do everything. While the call's handler is made.
  CallAccess(Gate* gate, const Method& method, Call& call)
      : CallAccess(gate, method) {
    if (gate != nullptr) {
      visitor_ = absl::WrapUnique(new const Visitor(
          gate->Admit(call.peer(), call.FindHeader(kHeader))));
    }
  }
  CallAccess(Gate* gate, const Method& method, HttpCall& call)
      : CallAccess(gate, method) {
    if (gate != nullptr) {
      visitor_ = absl::WrapUnique(new const Visitor(
          gate->Admit(call.peer(), call.head().Find(kHeader))));
    }
  }

  // UNAUTHENTICATED or PERMISSION_DENIED, with the reason for the client.
  absl::Status Check(const Target& target) const {
    if (gate_ == nullptr) return absl::OkStatus();
    return gate_->Check(*visitor_, method_, target);
  }

  // The policy's name for who makes it; empty: there is no policy.
  std::string caller() const {
    return gate_ == nullptr ? "" : visitor_->identity()->caller->name;
  }

  // The call passed, and brings a request that counts until `pass` is gone.
  // RESOURCE_EXHAUSTED with a retry hint: the caller asks for too much.
  absl::Status Enter(CallerPass& pass) const {
    if (gate_ == nullptr) return absl::OkStatus();
    absl::Duration retry_after;
    absl::Status status = gate_->Enter(*visitor_, method_, pass, retry_after);
    if (!status.ok()) SetRetryHint(status, retry_after);
    return status;
  }

  // That his requests have which give none, and the most urgent one that he
  // gets; 0: the policy says nothing of it.
  uint64_t priority() const {
    return gate_ == nullptr ? 0 : visitor_->identity()->caller->priority;
  }

  // The call passed and changes the server. False: there is no policy.
  bool LogChange(std::string_view object) const {
    if (gate_ == nullptr) return false;
    gate_->LogChange(*visitor_, method_, object);
    return true;
  }

 private:
  static constexpr std::string_view kHeader = "authorization";

  CallAccess(Gate* gate, const Method& method) : gate_(gate), method_(method) {}

  Gate* const gate_;
  const Method& method_;
  std::unique_ptr<const Visitor> visitor_;  // with a gate
};

}  // namespace stoker
