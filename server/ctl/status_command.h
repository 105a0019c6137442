// What a running daemon does with its buckets: `stokerctl status`. Reads its
// /status.json.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace stoker {

class CommandLine;

// A row for each version and each bucket of the model (of all for an empty
// name): state, the requests that each tier answered, and what its compile has
// paid back; as JSON, what the daemon said. `url`: http://HOST:PORT/metrics,
// beside which status.json lies. `token_file`: of a bearer token to show;
// empty: none. Returns 0; UNAVAILABLE when nobody answers there or the answer
// is none of a daemon's, NOT_FOUND when it has no such model.
absl::StatusOr<int> ShowStatus(const std::string& url, const std::string& model,
                               const std::string& token_file, bool json);

void AddStatusCommand(CommandLine& line);

}  // namespace stoker
