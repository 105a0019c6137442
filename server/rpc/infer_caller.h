// Who asks for inferences: whether he may, and what is told of him where
// somebody wants to know of single requests.
//
// A value; any thread may ask. What it is made of outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "access/caller_load.h"
#include "access/gate.h"
#include "access/method.h"
#include "access/policy.h"
#include "rpc/call_access.h"
#include "telemetry/request_record.h"
#include "telemetry/telemetry.h"
#include "telemetry/trace_context.h"
#include "wire/call.h"
#include "wire/http_call.h"
#include "wire/peer.h"

namespace stoker {

class InferCaller {
 public:
  // While the call's handler is made. `call`: of gRPC or of HTTP; `protocol`:
  // as RequestRecord's. Null `gate`: everybody may do everything; null
  // `telemetry`: nobody wants to know.
  template <typename AnyCall>
  InferCaller(Gate* gate, const Telemetry* telemetry, const Method& method,
              AnyCall& call, std::string_view protocol)
      : access_(gate, method, call), protocol_(protocol) {
    if (telemetry == nullptr || !telemetry->wants_callers()) return;
    peer_ = call.peer();
    if (!telemetry->traces()) return;
    const std::string* const header = Find(call, "traceparent");
    if (header != nullptr) parent_ = ParseTraceParent(*header);
  }

  // UNAUTHENTICATED or PERMISSION_DENIED, with the reason for the client.
  absl::Status Check(const Target& target) const {
    return access_.Check(target);
  }

  // As CallAccess has them.
  absl::Status Enter(CallerPass& pass) const { return access_.Enter(pass); }
  uint64_t priority() const { return access_.priority(); }

  // Of the client's trace; null: it has none.
  const TraceParent* parent() const {
    return parent_.has_value() ? &*parent_ : nullptr;
  }

  // Protocol, peer, caller and trace.
  void Describe(RequestRecord& record) const {
    record.protocol = protocol_;
    if (peer_ != nullptr) record.peer = peer_->shown();
    record.caller = access_.caller();
    record.parent = parent_;
  }

 private:
  static const std::string* Find(const Call& call, std::string_view name) {
    return call.FindHeader(name);
  }
  static const std::string* Find(const HttpCall& call, std::string_view name) {
    return call.head().Find(name);
  }

  const CallAccess access_;
  const std::string_view protocol_;
  std::shared_ptr<const Peer> peer_;
  std::optional<TraceParent> parent_;
};

}  // namespace stoker
