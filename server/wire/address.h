// Where a server listens, as people write it: "127.0.0.1:8001", "[::]:0",
// "localhost:8001", "unix:/run/stoker/grpc.sock".
//
// Thread-safe: functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace stoker {

// INVALID_ARGUMENT unless it is host:port or unix:PATH.
absl::Status CheckListenAddress(const std::string& address);

struct ListeningSockets {
  std::vector<FileDescriptor> sockets;  // do not block
  int port = 0;                         // the same of all; 0 of a unix socket
};

// Binds every address that the host's name stands for. A unix socket that
// nobody listens on any more is replaced. INVALID_ARGUMENT as above;
// UNAVAILABLE where it can't be bound, with the system's reason.
// `protocol`: what is spoken there, for people.
absl::StatusOr<ListeningSockets> Listen(const std::string& address,
                                        const std::string& protocol);

}  // namespace stoker
