// A report of compiler/explain as text. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace stoker {

// Tables of the graph, its kernels and its lines, the longest first and only as
// many as fill a screen. INTERNAL, with the field, for what is no report.
absl::StatusOr<std::string> GraphReportText(const nlohmann::json& report);

}  // namespace stoker
