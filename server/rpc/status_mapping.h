// The one place where our status codes become gRPC's.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace stoker {

// The same canonical code. A long message is cut: it travels in the trailers,
// which many clients limit to 8 KiB, and a client whose limit is exceeded sees
// neither code nor text.
grpc::Status ToGrpcStatus(const absl::Status& status);

// What a unary call is finished with whose client sent no message.
grpc::Status NoMessageStatus();

// "invalid_argument": the value of the metrics' label `outcome`.
std::string OutcomeName(absl::StatusCode code);

}  // namespace stoker
