#include "ctl/daemon_address.h"

#include "CLI/CLI.hpp"

namespace stoker {

void AddDaemonAddress(CLI::App& command, ServerAddress& server) {
  server.address = "127.0.0.1:8001";
  command.add_option("--grpc", server.address, "the daemon's gRPC address")
      ->capture_default_str();
  CLI::Option* const authorities =
      command
          .add_option("--tls-ca", server.authorities,
                      "speak TLS to it: authorities (PEM) that its certificate "
                      "has to be of")
          ->check(CLI::ExistingFile);
  CLI::Option* const certificate =
      command
          .add_option("--tls-certificate", server.certificate,
                      "certificate (PEM) to show to it")
          ->check(CLI::ExistingFile)
          ->needs(authorities);
  CLI::Option* const key =
      command.add_option("--tls-key", server.key, "its key (PEM)")
          ->check(CLI::ExistingFile)
          ->needs(certificate);
  certificate->needs(key);
  command
      .add_option("--tls-server-name", server.server_name,
                  "name that its certificate has to hold; the address' host "
                  "unless given")
      ->needs(authorities);
  command
      .add_option("--token-file", server.token_file,
                  "file with a bearer token to show to it")
      ->check(CLI::ExistingFile);
}

}  // namespace stoker
