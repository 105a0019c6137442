// Addresses to listen at, as people write them: "127.0.0.1:8001", "[::1]:0".
// Pure.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace stoker {

// INVALID_ARGUMENT unless it is a host, a colon and a port of 0 to 65535 in
// digits. Libraries take more than that and mean something else by it: gRPC
// counts ports modulo 65536, and listens at 443 where there is none.
absl::Status CheckHostPort(std::string_view address);

}  // namespace stoker
