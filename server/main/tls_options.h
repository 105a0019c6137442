// The options of TLS on the gRPC port.
#pragma once

#include "wire/tls_context.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stoker {

// `tls` outlives the parsing.
void AddTlsOptions(CLI::App& app, TlsOptions& tls);

}  // namespace stoker
