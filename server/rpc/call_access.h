// One call before the policy: who makes it, and whether it may be about this or
// that.
//
// A value; any thread may ask. The gate outlives it.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "access/gate.h"
#include "access/method.h"
#include "access/policy.h"
#include "wire/call.h"
#include "wire/http_call.h"

namespace stoker {

class CallAccess {
 public:
  // `gate` null: everybody may do everything. While the call's handler is made.
  CallAccess(Gate* gate, const Method& method, Call& call)
      : CallAccess(gate, method) {
    if (gate != nullptr) {
      visitor_ = gate->Admit(call.peer(), call.FindHeader(kHeader));
    }
  }
  CallAccess(Gate* gate, const Method& method, HttpCall& call)
      : CallAccess(gate, method) {
    if (gate != nullptr) {
      visitor_ = gate->Admit(call.peer(), call.head().Find(kHeader));
    }
  }

  // UNAUTHENTICATED or PERMISSION_DENIED, with the reason for the client.
  absl::Status Check(const Target& target) const {
    if (gate_ == nullptr) return absl::OkStatus();
    return gate_->Check(*visitor_, method_, target);
  }

  // The policy's name for who makes it; empty: there is no policy.
  std::string_view caller() const {
    if (gate_ == nullptr) return "";
    return visitor_->identity.caller->name;
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
  std::optional<Visitor> visitor_;  // with a gate
};

}  // namespace stoker
