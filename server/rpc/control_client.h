// Asks a server to load or unload a model: the client's side of this room.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "repository/snapshot_source.h"
#include "rpc/client_channel.h"

namespace stoker {

// `override`: what is said of the model instead of the repository, if anything.
// Returns when the model's versions serve; else the server's code and text,
// UNAVAILABLE when it can't be reached or doesn't let itself be asked,
// DEADLINE_EXCEEDED when it isn't done in time, and goes on.
absl::Status LoadModel(const ServerAddress& server, const std::string& model,
                       const ModelOverride& override, absl::Duration timeout);
// Returns when no new request finds the model.
absl::Status UnloadModel(const ServerAddress& server, const std::string& model,
                         absl::Duration timeout);

}  // namespace stoker
