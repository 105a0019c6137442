#include "telemetry/trace_context.h"

#include <cstddef>

namespace stoker {
namespace {

// "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
constexpr size_t kVersion = 0, kTrace = 3, kSpan = 36, kFlags = 53;
constexpr size_t kSize = 55;

// In lower case, as the standard has it.
std::optional<uint64_t> Hex(std::string_view text) {
  uint64_t value = 0;
  for (const char c : text) {
    uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint64_t>(c - 'a') + 10;
    } else {
      return std::nullopt;
    }
    value = value << 4 | digit;
  }
  return value;
}

}  // namespace

std::optional<TraceParent> ParseTraceParent(std::string_view header) {
  if (header.size() < kSize) return std::nullopt;
  for (const size_t dash : {kTrace - 1, kSpan - 1, kFlags - 1}) {
    if (header[dash] != '-') return std::nullopt;
  }
  const std::optional<uint64_t> version = Hex(header.substr(kVersion, 2));
  const std::optional<uint64_t> high = Hex(header.substr(kTrace, 16));
  const std::optional<uint64_t> low = Hex(header.substr(kTrace + 16, 16));
  const std::optional<uint64_t> span = Hex(header.substr(kSpan, 16));
  const std::optional<uint64_t> flags = Hex(header.substr(kFlags, 2));
  if (!version || !high || !low || !span || !flags) return std::nullopt;
  // What later versions append stands behind another dash.
  if (*version == 0xff) return std::nullopt;
  if (header.size() > kSize && (*version == 0 || header[kSize] != '-')) {
    return std::nullopt;
  }
  if ((*high | *low) == 0 || *span == 0) return std::nullopt;
  return TraceParent{{*high, *low}, *span, (*flags & 1) != 0};
}

}  // namespace stoker
