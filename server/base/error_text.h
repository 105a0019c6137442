// How a client's own words are shown in an error: cut to a length that a log
// line and a trailer can bear, whatever the client sent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace stoker {

// At most `max_bytes`; what is cut away shows as "...". Never ends inside a
// UTF-8 sequence.
std::string Excerpt(std::string_view text, size_t max_bytes = 128);

// "[1,16]"; at most 16 dimensions, then "...".
std::string ShapeExcerpt(absl::Span<const int64_t> shape);

}  // namespace stoker
