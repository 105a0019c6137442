#include "base/error_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stoker {

std::string Excerpt(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = max_bytes;
  // A byte 10xxxxxx continues a character: cut before the one that starts it.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return std::string(text.substr(0, end)) + "...";
}

std::string ShapeExcerpt(absl::Span<const int64_t> shape) {
  constexpr size_t kMaxDims = 16;
  const bool cut = shape.size() > kMaxDims;
  return absl::StrCat(
      "[", absl::StrJoin(shape.first(std::min(shape.size(), kMaxDims)), ","),
      cut ? ",...]" : "]");
}

}  // namespace stoker
