// A Status as JSON: what /status.json answers and `stokerctl status` reads.
// deploy/operations.md lists the fields.
#pragma once

#include <string>

#include "status/status.h"

namespace stoker {

// Indented, UTF-8 (other bytes are replaced), ended by a line feed. No number
// is missing because it is infinite or none: what was not measured is 0 or
// null.
std::string StatusJson(const Status& status);

}  // namespace stoker
