// What a running daemon does with its buckets: `stokerctl status`. Reads its
// metrics page.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace stoker {

// A row for each bucket of the model (of all for an empty name): state, the
// requests that each tier answered, and what its compile has paid back. `url`:
// http://HOST:PORT/metrics. Returns 0; UNAVAILABLE when nobody answers there,
// NOT_FOUND when it has no such model.
absl::StatusOr<int> ShowStatus(const std::string& url, const std::string& model,
                               bool json);

}  // namespace stoker
