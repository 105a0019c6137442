// The options that bound what peers of the ports may do, say which of them are
// proxies, and where the ports' threads run.
#pragma once

#include <vector>

#include "wire/ip_address.h"
#include "wire/limits.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stoker {

// What is passed by reference outlives the parsing. `metrics_connections`: of
// the port of the status page; `cpus`: a thread of the ports on each.
void AddWireOptions(CLI::App& app, WireLimits& limits, int& metrics_connections,
                    std::vector<IpNetwork>& proxies, std::vector<int>& cpus);

}  // namespace stoker
