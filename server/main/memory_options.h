// The budget of the host's memory on the command line.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stoker {

// "24GiB", "512M", bytes, or "60%" of `limit`, which is what this process may
// use; "0": none. INVALID_ARGUMENT for anything else, and for less than 1 MiB,
// which nobody means.
absl::StatusOr<int64_t> ParseMemoryBudget(std::string_view text, int64_t limit);

// `bytes` outlives the parsing.
void AddMemoryOptions(CLI::App& app, int64_t& bytes);

}  // namespace stoker
