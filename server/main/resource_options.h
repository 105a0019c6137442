// The resources that models name, on the command line.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "models/resource_limits.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stoker {

// "NAME:COUNT", or "NAME:COUNT:DEVICE" with cpu, cuda:N or, as at Triton, N for
// cuda:N. INVALID_ARGUMENT for anything else.
absl::StatusOr<ResourceLimit> ParseResourceLimit(std::string_view text);

// `limits` outlives the parsing.
void AddResourceOptions(CLI::App& app, ResourceLimits& limits);

}  // namespace stoker
