// Whether a running daemon serves: `stokerctl health`, for a container's health
// check.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/client_channel.h"

namespace stoker {

class CommandLine;

// `service`: as the daemon's health service names it; ""
// for the daemon itself. Returns 0 when it serves and 1 when it doesn't; the
// status of rpc/health_client.h when it can't be asked.
absl::StatusOr<int> ShowHealth(const ServerAddress& server,
                               const std::string& service,
                               absl::Duration timeout, bool json);

void AddHealthCommand(CommandLine& line);

}  // namespace stoker
