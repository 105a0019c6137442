// Listening sockets that a service manager has opened for this process, as
// sd_listen_fds_with_names(3) has it: descriptors from 3 on, which LISTEN_FDS
// counts and LISTEN_FDNAMES names, for the process LISTEN_PID. That manual asks
// who needs no more than this to do without the library.
//
// One thread at a time.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace stoker {

class PassedSockets {
 public:
  // None.
  PassedSockets() = default;
  // Takes the variables out of the environment, and keeps the descriptors from
  // children: neither is for them. Once, before there are threads.
  // INVALID_ARGUMENT: the variables are meant for this process, and wrong.
  static absl::StatusOr<PassedSockets> FromEnvironment();

  // All sockets of that name; each name once. They do not block. NOT_FOUND:
  // there are none, INVALID_ARGUMENT: one doesn't listen for a stream; both say
  // what was expected and what came.
  absl::StatusOr<std::vector<FileDescriptor>> Take(const std::string& name);

  // Whether only this machine can connect to those of that name, taken or not.
  bool IsLocal(const std::string& name) const;
  // Of those that nobody took: "'a', 'b'". They are closed.
  std::string CloseOthers();

 private:
  struct Socket {
    std::string name;
    FileDescriptor descriptor;
    bool local;
  };

  std::string Names() const;  // of those that are left

  std::vector<Socket> sockets_;
};

}  // namespace stoker
