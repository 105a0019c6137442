// A model's aliases.yaml: names of versions, and which of them get the requests
// that name none. Private to this room.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace stoker {

struct AliasSpec {
  int64_t version = 0;
  int percent = 0;  // of the requests that name no version
};

// By name; empty for an empty text. INVALID_ARGUMENT, a line for each mistake:
// "<path>:2: canary: expected ..., got ...".
absl::StatusOr<std::map<std::string, AliasSpec>> ReadAliases(
    std::string_view yaml, const std::string& path);

}  // namespace stoker
