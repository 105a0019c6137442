// How this room's clients reach a server.
//
// A value.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace grpc {
class Channel;
class ClientContext;
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
  // A file that holds a bearer token; empty: none is shown.
  std::string token_file;
};

// The token in a file, without the line's end behind it. The system's code, or
// INVALID_ARGUMENT for what can't be one; no error shows it.
absl::StatusOr<std::string> ReadToken(const std::string& path);
// Shows the server's token with that call. Status as ReadToken's.
absl::Status ShowToken(const ServerAddress& server,
                       grpc::ClientContext& context);

// The system's code, with the path, where a file can't be read. Nothing is
// connected yet.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const ServerAddress& server);

}  // namespace stoker
