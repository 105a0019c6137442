// The part of the POSIX.1-1988 ustar format that packs use: regular files with
// names and sizes, everything else at its default. One name and size have one
// header, so that a reader who knows what must come next compares bytes instead
// of parsing what it can't trust: links, devices, long-name extensions and
// attributes don't exist here.
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace stoker {

inline constexpr size_t kUstarBlockBytes = 512;
// An archive ends with two blocks of zeros.
inline constexpr size_t kUstarEndBytes = 2 * kUstarBlockBytes;
// Eleven octal digits.
inline constexpr int64_t kUstarMaxFileBytes = (int64_t{1} << 33) - 1;

// The block in front of a file: mode 0644, user, group and time 0.
// INVALID_ARGUMENT when the name (at most 100 bytes, with more than that in
// folders in front of it: 155) or the size doesn't fit.
absl::StatusOr<std::string> UstarHeader(std::string_view name, int64_t bytes);

// Zeros after a file of that size, up to the next block.
size_t UstarPadding(int64_t bytes);

// The size that a header gives; nullopt when it holds no such number.
std::optional<int64_t> UstarSize(std::string_view header);

// What a block of unknown content holds, for messages: "a file x of 12 bytes",
// "a symbolic link x", "the end of the archive", "no tar header". Printable.
std::string DescribeUstarHeader(std::string_view header);

}  // namespace stoker
