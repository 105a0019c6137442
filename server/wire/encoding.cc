#include "wire/encoding.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace stoker {

const char* EncodingName(Encoding encoding) {
  return encoding == Encoding::kGzip      ? "gzip"
         : encoding == Encoding::kDeflate ? "deflate"
                                          : "identity";
}

std::optional<Encoding> ParseEncoding(std::string_view name) {
  for (const Encoding each :
       {Encoding::kIdentity, Encoding::kDeflate, Encoding::kGzip}) {
    if (name == EncodingName(each)) return each;
  }
  return std::nullopt;
}

EncodingSet EncodingSet::Parse(std::string_view list) {
  EncodingSet set;
  const absl::string_view text(list.data(), list.size());
  for (const absl::string_view each : absl::StrSplit(text, ',')) {
    const absl::string_view name = absl::StripAsciiWhitespace(each);
    if (const auto known = ParseEncoding({name.data(), name.size()})) {
      set.bits_ |= 1U << static_cast<int>(*known);
    }
  }
  return set;
}

}  // namespace stoker
