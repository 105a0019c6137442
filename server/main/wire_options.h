// The options that bound what peers of the ports may do, and say which of them
// are proxies.
#pragma once

#include <vector>

#include "wire/ip_address.h"
#include "wire/limits.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stoker {

// What is passed by reference outlives the parsing. `metrics_connections`: of
// the port of the status page.
void AddWireOptions(CLI::App& app, WireLimits& limits, int& metrics_connections,
                    std::vector<IpNetwork>& proxies);

}  // namespace stoker
