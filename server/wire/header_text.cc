#include "wire/header_text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace stoker {

std::string PercentEncoded(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && c != '%') {
      encoded.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded.push_back('%');
    encoded.push_back(kDigits[byte >> 4]);
    encoded.push_back(kDigits[byte & 15]);
  }
  return encoded;
}

std::optional<absl::Duration> ParseGrpcTimeout(std::string_view text) {
  constexpr size_t kMaxDigits = 8;
  if (text.size() < 2 || text.size() > kMaxDigits + 1) return std::nullopt;
  const char unit = text.back();
  text.remove_suffix(1);
  int64_t value = 0;
  for (const char digit : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(digit))) {
      return std::nullopt;
    }
    value = value * 10 + (digit - '0');
  }
  switch (unit) {
    case 'H':
      return absl::Hours(value);
    case 'M':
      return absl::Minutes(value);
    case 'S':
      return absl::Seconds(value);
    case 'm':
      return absl::Milliseconds(value);
    case 'u':
      return absl::Microseconds(value);
    case 'n':
      return absl::Nanoseconds(value);
    default:
      return std::nullopt;
  }
}

std::string Base64(std::string_view bytes) {
  std::string text;
  absl::Base64Escape(absl::string_view(bytes.data(), bytes.size()), &text);
  while (!text.empty() && text.back() == '=') text.pop_back();
  return text;
}

}  // namespace stoker
