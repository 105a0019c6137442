// How a request ended, as the label `outcome` of the metrics has it. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace stoker {

// "ok", "invalid_argument", ...; "unknown" of a code that nobody knows.
std::string OutcomeName(absl::StatusCode code);

}  // namespace stoker
