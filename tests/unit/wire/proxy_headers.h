// PROXY headers of version 2, right or wrong.
#pragma once

#include <arpa/inet.h>

#include <string>

namespace stoker {

inline std::string SecondHeader(int command, int kind,
                                const std::string& rest) {
  return std::string("\r\n\r\n\0\r\nQUIT\n", 12) + static_cast<char>(command) +
         static_cast<char>(kind) + static_cast<char>(rest.size() >> 8) +
         static_cast<char>(rest.size() & 0xFF) + rest;
}

// Source, destination, ports.
inline std::string Addresses(int family, size_t size, const char* source) {
  std::string bytes(size, '\0');
  inet_pton(family, source, bytes.data());
  return bytes + bytes + std::string("\0\1\0\2", 4);
}
inline std::string Four(const char* source) {
  return Addresses(AF_INET, 4, source);
}
inline std::string Six(const char* source) {
  return Addresses(AF_INET6, 16, source);
}

}  // namespace stoker
