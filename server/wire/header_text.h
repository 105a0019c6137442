// gRPC's texts in HTTP/2's headers: percent-encoded messages, timeouts, base64.
//
// Thread-safe: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace stoker {

// What is not printable ASCII, and '%', as "%XX".
std::string PercentEncoded(std::string_view text);

// "100m" is 100 ms: at most eight digits and one of H, M, S, m, u, n. Nullopt
// for anything else.
std::optional<absl::Duration> ParseGrpcTimeout(std::string_view text);

// As for "-bin" headers, without padding.
std::string Base64(std::string_view bytes);

}  // namespace stoker
