// The header of the PROXY protocol, versions 1 and 2, by which a proxy that
// passes bytes on says whose they are. It comes before anything else, TLS
// included.
// https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt
//
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "wire/ip_address.h"

namespace stoker {

struct ProxyHeader {
  size_t size = 0;  // of all of it, in bytes
  // Whose connection it is. nullopt: the proxy's own (LOCAL), or of who has no
  // address of IP (UNKNOWN, UNSPEC, a unix socket).
  std::optional<IpAddress> source;
};

// Addresses take 52 bytes at most; what proxies add to them may take the rest.
// Nobody sends more: nginx takes as many.
inline constexpr size_t kMaxProxyHeader = 4096;

// What a connection's first bytes begin with; nullopt: more are needed to tell,
// which is never so of kMaxProxyHeader. INVALID_ARGUMENT: no such header comes
// of it, with what was expected and the bytes that came.
absl::StatusOr<std::optional<ProxyHeader>> ReadProxyHeader(
    std::string_view bytes);

}  // namespace stoker
