// The options of commands that speak to a running daemon's gRPC port.
#pragma once

#include "rpc/client_channel.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stoker {

// --grpc, with the daemon's default, and --tls-..., --token-file; `server`
// outlives the command.
void AddDaemonAddress(CLI::App& command, ServerAddress& server);

}  // namespace stoker
