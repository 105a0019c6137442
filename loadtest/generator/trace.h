// A recorded trace: the sizes of requests in order, and when they came. Files
// are CSV with a header line, or JSON lines (one object a line), by their
// ending .csv or .jsonl. Columns are the scenario's dimensions; the column
// offset_ms, where there is one, is the arrival in ms since the start.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace stoker::loadtest {

struct Trace {
  // sizes[i][d]: request i, dimension d in the order asked for.
  std::vector<std::vector<int64_t>> sizes;
  std::vector<int64_t> offsets_ns;  // ascending; empty: not recorded
};

// INVALID_ARGUMENT names file and line, what was expected and what came: a
// missing or unknown column, a size that is no integer from 0 up, an offset
// before the one before, no row at all.
absl::StatusOr<Trace> ReadTrace(const std::string& path,
                                const std::vector<std::string>& dimensions);
absl::StatusOr<Trace> ParseTrace(std::string_view text, const std::string& path,
                                 const std::vector<std::string>& dimensions);

}  // namespace stoker::loadtest
