// The options that bound what peers of the gRPC port may do.
#pragma once

#include "wire/limits.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stoker {

// `limits` outlives the parsing.
void AddWireOptions(CLI::App& app, WireLimits& limits);

}  // namespace stoker
