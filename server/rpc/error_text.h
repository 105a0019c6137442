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

// The text with every byte that is not part of a UTF-8 character replaced by
// "?": clients refuse a whole message over one such byte in a string field, and
// compilers' output is not ours to vouch for.
std::string ValidUtf8(std::string_view text);

// "[1,16]"; at most 16 dimensions, then "...".
std::string ShapeExcerpt(absl::Span<const int64_t> shape);

}  // namespace stoker
