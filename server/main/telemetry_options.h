// The options about what is told of single requests.
#pragma once

#include "telemetry/telemetry.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stoker {

// `telemetry` outlives the parsing.
void AddTelemetryOptions(CLI::App& app, TelemetryOptions& telemetry);

}  // namespace stoker
