// Asks a server's health service: the client's side of this room.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stoker {

// Whether a service serves, by the server at `address` (host:port); "" is the
// server itself. NOT_FOUND when the server knows no such service, UNAVAILABLE
// when it can't be reached, DEADLINE_EXCEEDED when it doesn't answer in time.
absl::StatusOr<bool> AskHealth(const std::string& address,
                               const std::string& service,
                               absl::Duration timeout);

}  // namespace stoker
