// Text of unknown origin made fit for protobuf strings.
#pragma once

#include <string>
#include <string_view>

namespace stoker {

// The text with every byte that is not part of a UTF-8 character replaced by
// "?": clients refuse a whole message over one such byte in a string field, and
// compilers' output is not ours to vouch for.
std::string ValidUtf8(std::string_view text);

}  // namespace stoker
