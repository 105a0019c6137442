// Asks the policy about the calls of every method but inference's, whose
// requests are read elsewhere (rpc/infer_call.h); and logs those that change
// the server, also without a policy. Where nobody is asked who he is, those
// that load models and change settings are this machine's alone.
#pragma once

#include "access/audit_log.h"
#include "access/gate.h"
#include "metrics/metrics.h"
#include "rpc/method_table.h"

namespace stoker {

// What they are guarded by; all of it outlives the table.
struct Guard {
  Gate* gate;  // null: there is no policy
  AuditLog& audit;
  MetricRegistry& metrics;
  // Whether clients are asked who they are: by a policy, or for certificates.
  bool knows_clients;
};

// Once all methods are in the table.
void GuardMethods(MethodTable& methods, const Guard& guard);

}  // namespace stoker
