#include "main/wire_options.h"

#include <algorithm>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/cpus.h"
#include "main/seconds.h"

namespace stoker {
namespace {

constexpr int64_t kMostThings = 1 << 20;

template <typename Number>
void AddNumber(CLI::App& app, const std::string& name, Number& value,
               const std::string& meaning, int64_t least = 1,
               int64_t most = kMostThings) {
  app.add_option(name, value, meaning)
      ->check(CLI::Range(least, most))
      ->capture_default_str();
}

void AddProxies(CLI::App& app, std::vector<IpNetwork>& proxies) {
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
}

// What is wrong with them; empty: nothing.
std::string CheckCpus(const std::string& text) {
  const absl::StatusOr<std::vector<int>> cpus = ParseCpuList(text);
  if (!cpus.ok()) return std::string(cpus.status().message());
  const std::vector<int> usable = UsableCpus();
  for (const int cpu : *cpus) {
    if (!std::binary_search(usable.begin(), usable.end(), cpu)) {
      return absl::StrCat("expected some of ", CpuList(usable), ", not ", cpu);
    }
  }
  return "";
}

void AddCpus(CLI::App& app, std::vector<int>& cpus) {
  app.add_option_function<std::string>(
         "--port-cpus",
         [&cpus](const std::string& text) { cpus = *ParseCpuList(text); },
         "CPUs such as 0-1,8: the ports of gRPC and HTTP have a thread on each "
         "of them, and no other; not given: one for each four cores, at most "
         "8, wherever there is room")
      ->check(CheckCpus);
}

void AddLimitsOfServer(CLI::App& app, WireLimits& limits,
                       int& metrics_connections) {
  AddNumber(app, "--max-connections", limits.max_connections,
            "connections of the ports of gRPC and HTTP; beyond them one "
            "without calls makes room");
  AddNumber(app, "--max-connections-per-peer", limits.max_connections_per_peer,
            "of them, of one address; the newest are closed");
  AddNumber(app, "--max-metrics-connections", metrics_connections,
            "connections of the port of the status page, likewise");
  AddNumber(app, "--max-handshakes", limits.max_handshakes,
            "TLS handshakes under way on each thread of the ports; beyond "
            "them the peer that has been silent for longest goes");
  AddNumber(app, "--max-waiting-calls", limits.max_waiting_calls,
            "calls without a message on each thread of the port; beyond them "
            "the one that has waited for longest is refused");
  AddNumber(app, "--max-kept-bytes", limits.max_kept_bytes,
            "what streams' clients have sent on each thread of the port "
            "before it is asked for, beyond 64 KB each, and headers that are "
            "not whole; then the newest goes",
            0, int64_t{1} << 40);
}

void AddLimitsOfConnections(CLI::App& app, WireLimits& limits) {
  AddNumber(app, "--max-calls-per-connection", limits.max_calls,
            "calls that are open at a time; more are refused");
  AddNumber(app, "--max-header-bytes", limits.max_header_bytes,
            "of a call, as HTTP/2 counts them; of HTTP request line and "
            "headers",
            1 << 10, 1 << 18);
  AddNumber(app, "--header-excess", limits.header_excess,
            "beyond so many times --max-header-bytes not the call ends, but "
            "the connection");
  AddNumber(app, "--max-continuations", limits.max_continuations,
            "frames of HTTP/2 that a call's headers may come in, besides the "
            "first");
  AddNumber(app, "--max-settings", limits.max_settings,
            "entries of one SETTINGS frame");
  AddNumber(app, "--max-waiting-acks", limits.max_waiting_acks,
            "acknowledgements that wait for a client to read them");
  AddNumber(app, "--max-useless-frames", limits.useless_frames,
            "frames at once that move nothing (pings, settings, windows, "
            "priorities, empty data); then the connection ends");
  AddNumber(app, "--useless-frames-per-second",
            limits.useless_frames_per_second, "and so many more each second",
            0);
  AddNumber(app, "--max-resets", limits.resets,
            "streams at once that a client resets, or makes the server reset; "
            "then the connection ends");
  AddNumber(app, "--resets-per-second", limits.resets_per_second,
            "and so many more each second", 0);
}

void AddTimes(CLI::App& app, WireLimits& limits) {
  AddSeconds(app, "--stall-seconds", limits.stall_limit,
             "time for headers that have begun to arrive, for each piece of a "
             "message that has, or of an answer that is being taken");
  AddNumber(app, "--stall-bytes", limits.progress_bytes,
            "size of such a piece; the last one may be smaller", 1, 1 << 30);
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
  AddSeconds(app, "--connection-grace-seconds", limits.age_grace,
             "what such a connection's open calls have to end");
}

}  // namespace

void AddWireOptions(CLI::App& app, WireLimits& limits, int& metrics_connections,
                    std::vector<IpNetwork>& proxies, std::vector<int>& cpus) {
  AddProxies(app, proxies);
  AddCpus(app, cpus);
  AddLimitsOfServer(app, limits, metrics_connections);
  AddLimitsOfConnections(app, limits);
  AddTimes(app, limits);
}

}  // namespace stoker
