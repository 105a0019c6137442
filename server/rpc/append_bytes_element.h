// One element of BYTES as it stands on the wire: behind its length, of four
// bytes and little endian.
//
// Thread-safe: a pure function on values.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace stoker {

inline void AppendBytesElement(std::string_view element, std::string& bytes) {
  const auto length = static_cast<uint32_t>(element.size());
  char prefix[sizeof(length)];
  std::memcpy(prefix, &length, sizeof(length));  // little endian, as this host
  bytes.append(prefix, sizeof(length));
  bytes.append(element);
}

}  // namespace stoker
