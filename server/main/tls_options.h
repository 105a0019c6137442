// The options of TLS.
#pragma once

#include "wire/tls_context.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stoker {

// Both outlive the parsing. `metrics`: whether the metrics port has it too.
void AddTlsOptions(CLI::App& app, TlsOptions& tls, bool& metrics);

}  // namespace stoker
