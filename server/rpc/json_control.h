// Requests for loads and unloads as HTTP has them, in JSON.
//
// Thread-safe: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace stoker {

// An object; an empty body is as good as an empty one. INVALID_ARGUMENT for
// anything else.
absl::StatusOr<nlohmann::json> JsonObjectOf(std::string_view body);

// The serialised message. INVALID_ARGUMENT: no object, a parameter of another
// type, or a file that isn't in base64.
absl::StatusOr<std::string> LoadRequestOfJson(const std::string& model,
                                              std::string_view body);
absl::StatusOr<std::string> UnloadRequestOfJson(const std::string& model,
                                                std::string_view body);

}  // namespace stoker
