// How this room's clients reach a server.
//
// A value.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace stoker {

struct ServerAddress {
  std::string address;  // host:port, or unix:PATH
  // PEM files. Empty: plain text; else the server has to have a certificate of
  // one of these authorities.
  std::string authorities;
  std::string certificate;  // the client's own; empty: none
  std::string key;
  // What the server's certificate has to name; empty: the address' host.
  std::string server_name;
};

// The system's code, with the path, where a file can't be read. Nothing is
// connected yet.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const ServerAddress& server);

}  // namespace stoker
