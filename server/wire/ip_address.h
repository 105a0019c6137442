// Addresses of IP and ranges of them, as people write them: "10.0.0.7",
// "10.0.0.0/8", "fd00::/8". What IPv6 wraps of IPv4 (::ffff:10.0.0.7) is IPv4's
// here: one peer has one name, whatever socket it came by.
//
// Plain values; thread-safe.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace stoker {

class IpAddress {
 public:
  // Of a socket's name; nullopt: it is no socket of IP.
  static std::optional<IpAddress> Of(const sockaddr_storage& name);
  // Digits, no host's name, of AF_INET or AF_INET6; nullopt: it is no such one.
  static std::optional<IpAddress> Parse(int family, const std::string& text);
  // 4 or 16 bytes of AF_INET or AF_INET6, as they are on the wire.
  static IpAddress FromBytes(int family, const void* bytes);

  std::string text() const;
  // Whether only this machine has it.
  bool is_loopback() const;
  bool operator==(const IpAddress&) const = default;

 private:
  friend class IpNetwork;
  int bits() const;

  int family_ = AF_INET;
  std::array<uint8_t, 16> bytes_ = {};
};

class IpNetwork {
 public:
  // INVALID_ARGUMENT, with what was expected: it is no address, with or without
  // a prefix's length, or has bits behind its prefix.
  static absl::StatusOr<IpNetwork> Parse(const std::string& text);

  bool Contains(const IpAddress& address) const;
  std::string text() const;

 private:
  IpNetwork(const IpAddress& first, int prefix)
      : first_(first), prefix_(prefix) {}

  IpAddress first_;
  int prefix_;
};

}  // namespace stoker
