// SHA-256 (FIPS 180-4), by OpenSSL's libcrypto.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace stoker {

// 64 lower-case hexadecimal digits.
std::string Sha256Hex(std::string_view bytes);

// The same of a whole file. NOT_FOUND or the errno's code when it can't be
// read.
absl::StatusOr<std::string> Sha256File(const std::string& path);

}  // namespace stoker
