// Where a server listens, as people write it: "127.0.0.1:8001", "[::]:0",
// "localhost:8001", "unix:/run/stoker/grpc.sock"; "fd:grpc" where a service
// manager has opened a socket of that name.
//
// Thread-safe: functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "wire/passed_sockets.h"

namespace stoker {

// INVALID_ARGUMENT unless it is host:port, unix:PATH or fd:NAME.
absl::Status CheckListenAddress(const std::string& address);
// The name of fd:NAME; nullopt: it is another address.
std::optional<std::string> PassedName(const std::string& address);

struct ListeningSockets {
  std::vector<FileDescriptor> sockets;  // do not block
  // Of all; the first's of those that were passed; 0 of a unix socket.
  int port = 0;
};

// Binds every address that the host's name stands for. A unix socket that
// nobody listens on any more is replaced. INVALID_ARGUMENT as above;
// UNAVAILABLE where it can't be bound or wasn't passed, with the reason.
// `protocol`: what is spoken there, for people. `passed`: null: none were.
absl::StatusOr<ListeningSockets> Listen(const std::string& address,
                                        const std::string& protocol,
                                        PassedSockets* passed = nullptr);

}  // namespace stoker
