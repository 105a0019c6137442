// Asks the policy about the calls of every method but inference's, whose
// requests are read elsewhere (rpc/infer_call.h); and logs those that change
// the server, also without a policy.
#pragma once

#include "access/audit_log.h"
#include "access/gate.h"
#include "rpc/method_table.h"

namespace stoker {

// Once all methods are in the table. `gate` null: there is no policy. Both
// outlive the table.
void GuardMethods(MethodTable& methods, Gate* gate, AuditLog& audit);

}  // namespace stoker
