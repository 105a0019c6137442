// What is said at the start of ports that others than this machine reach.
//
// Thread-safe: a function.
#pragma once

#include <string>
#include <vector>

#include "wire/passed_sockets.h"

namespace stoker {

// `addresses`: as people write them; empty ones are left out. Warns where there
// is no TLS.
void WarnOfOpenPorts(const std::vector<std::string>& addresses,
                     const PassedSockets& passed, bool has_tls,
                     bool has_policy);

}  // namespace stoker
