// The one place where our status codes become gRPC's.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "wire/call.h"

namespace stoker {

// The same canonical code, and the retry hint if there is one. A long message
// is cut: it travels in the trailers, which many clients limit to 8 KiB, and a
// client whose limit is exceeded sees neither code nor text.
CallStatus ToCallStatus(const absl::Status& status);

// Makes the status say when to come back; gRPC carries it as
// google.rpc.RetryInfo among the status's details.
void SetRetryHint(absl::Status& status, absl::Duration delay);

// What a unary call is finished with whose client sent no message.
CallStatus NoMessageStatus();

}  // namespace stoker
