// The method LogSettings: which messages the process's log has, asked for and
// changed while it runs.
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rpc/method_table.h"

namespace stoker {

// All settings of a request are taken, or none. INVALID_ARGUMENT: there is no
// such setting, or not of that type; UNIMPLEMENTED: what can't change, such as
// where the log goes.
void AddLogSettings(MethodTable& methods);

// Over HTTP: what a body asks for, as gRPC's message, and its answer.
absl::StatusOr<std::string> LogSettingsRequestOf(std::string_view body);
std::string LogSettingsJson(const std::string& answer);

}  // namespace stoker
