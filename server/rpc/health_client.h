// Asks a server's health service: the client's side of this room.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "rpc/client_channel.h"

namespace stoker {

// Whether a service serves, by that server; "" is the server itself. NOT_FOUND
// when the server knows no such service, UNAVAILABLE when it can't be reached,
// DEADLINE_EXCEEDED when it doesn't answer in time.
absl::StatusOr<bool> AskHealth(const ServerAddress& server,
                               const std::string& service,
                               absl::Duration timeout);
// The same over a connection that exists and doesn't block.
absl::StatusOr<bool> AskHealth(FileDescriptor connection,
                               const std::string& service,
                               absl::Duration timeout);

}  // namespace stoker
