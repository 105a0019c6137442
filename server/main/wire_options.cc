#include "main/wire_options.h"

#include <string>

#include "CLI/CLI.hpp"
#include "main/seconds.h"

namespace stoker {
void AddWireOptions(CLI::App& app, WireLimits& limits,
                    std::vector<IpNetwork>& proxies) {
  app.add_option_function<std::vector<std::string>>(
         "--proxy-protocol-from",
         [&proxies](const std::vector<std::string>& ranges) {
           for (const std::string& range : ranges) {
             proxies.push_back(*IpNetwork::Parse(range));
           }
         },
         "connections to the ports of gRPC and HTTP come from proxies of this "
         "range of addresses, with a PROXY protocol header that says whose "
         "they are; may be given again")
      ->check([](const std::string& text) {
        return std::string(IpNetwork::Parse(text).status().message());
      });
  app.add_option("--max-connections", limits.max_connections,
                 "connections of the gRPC port; beyond them one without calls "
                 "makes room")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-connections-per-peer", limits.max_connections_per_peer,
                 "of them, of one address; the newest are closed")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-calls-per-connection", limits.max_calls,
                 "calls that are open at a time; more are refused")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-waiting-calls", limits.max_waiting_calls,
                 "calls without a message on each thread of the port; beyond "
                 "them the one that has waited for longest is refused")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-header-bytes", limits.max_header_bytes,
                 "of a call, as HTTP/2 counts them; of HTTP request line and "
                 "headers")
      ->check(CLI::Range(1 << 10, 1 << 18))
      ->capture_default_str();
  AddSeconds(app, "--stall-seconds", limits.stall_limit,
             "time for each piece of a message that has begun to arrive, or of "
             "an answer that is being taken");
  app.add_option("--stall-bytes", limits.progress_bytes,
                 "size of such a piece; the last one may be smaller")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  AddSeconds(
      app, "--handshake-seconds", limits.handshake_limit,
      "until a client has spoken HTTP/2, behind TLS where there is that");
  AddSeconds(app, "--keepalive-seconds", limits.keepalive,
             "silence after which a client is asked whether it is there, and "
             "has as long to answer");
  AddSeconds(app, "--connection-idle-seconds", limits.max_idle,
             "a connection without calls is closed after; 0: never",
             /*or_never=*/true);
  AddSeconds(app, "--connection-age-seconds", limits.max_age,
             "a connection takes no more calls after, so that clients spread "
             "over new servers; 0: never",
             /*or_never=*/true);
}

}  // namespace stoker
