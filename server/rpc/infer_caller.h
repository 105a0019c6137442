// Who asks for inferences: whether he may, and what is told of him where
// somebody wants to know of single requests.
//
// A value; any thread may ask. What it is made of outlives it.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "access/gate.h"
#include "access/method.h"
#include "access/policy.h"
#include "rpc/call_access.h"
#include "telemetry/request_record.h"
#include "telemetry/telemetry.h"
#include "wire/peer.h"

namespace stoker {

class InferCaller {
 public:
  // While the call's handler is made. `call`: of gRPC or of HTTP; `protocol`:
  // as RequestRecord's. Null `gate`: everybody may do everything; null
  // `telemetry`: nobody wants to know.
  template <typename Call>
  InferCaller(Gate* gate, const Telemetry* telemetry, const Method& method,
              Call& call, std::string_view protocol)
      : access_(gate, method, call), protocol_(protocol) {
    if (telemetry != nullptr) peer_ = call.peer();
  }

  // UNAUTHENTICATED or PERMISSION_DENIED, with the reason for the client.
  absl::Status Check(const Target& target) const {
    return access_.Check(target);
  }

  // Protocol, peer and caller.
  void Describe(RequestRecord& record) const {
    record.protocol = protocol_;
    if (peer_ != nullptr) record.peer = peer_->shown();
    record.caller = access_.caller();
  }

 private:
  const CallAccess access_;
  const std::string_view protocol_;
  std::shared_ptr<const Peer> peer_;
};

}  // namespace stoker
