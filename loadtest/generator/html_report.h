// The result of a scenario as one HTML page: tables and inline SVG, no script,
// nothing fetched.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace stoker::loadtest {

// `result` is a document of ResultJson. INVALID_ARGUMENT, with the field, when
// it is another.
absl::StatusOr<std::string> HtmlReport(const nlohmann::ordered_json& result);

}  // namespace stoker::loadtest
