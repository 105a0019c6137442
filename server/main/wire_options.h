// The options that bound what peers of the gRPC port may do, and say which of
// them are proxies.
#pragma once

#include <vector>

#include "wire/ip_address.h"
#include "wire/limits.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stoker {

// `limits` and `proxies` outlive the parsing.
void AddWireOptions(CLI::App& app, WireLimits& limits,
                    std::vector<IpNetwork>& proxies);

}  // namespace stoker
