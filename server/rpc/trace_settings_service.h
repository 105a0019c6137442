// The method TraceSetting: whether requests are traced, and which share of
// them, asked for and changed while the server runs.
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rpc/method_table.h"
#include "telemetry/telemetry.h"

namespace stoker {

// All settings of a request are taken, or none; one without values is what it
// was at the start. INVALID_ARGUMENT: there is no such setting, or it can't be
// that; UNIMPLEMENTED: those of one model, or a file; UNAVAILABLE: there is no
// collector. `telemetry` null: the same; else it outlives the calls.
void AddTraceSettings(MethodTable& methods, Telemetry* telemetry);

// Over HTTP: what a body asks for, as gRPC's message, and its answer.
absl::StatusOr<std::string> TraceSettingRequestOf(const std::string& model,
                                                  std::string_view body);
std::string TraceSettingJson(const std::string& answer);

}  // namespace stoker
