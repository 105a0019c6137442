#include "wire/ip_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace stoker {
namespace {

constexpr std::array<uint8_t, 12> kWrapped = {0, 0, 0, 0, 0,    0,
                                              0, 0, 0, 0, 0xFF, 0xFF};

absl::Status NoNetwork(const std::string& why, const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", why, ", got \"", text, "\""));
}

}  // namespace

IpAddress IpAddress::FromBytes(int family, const void* bytes) {
  IpAddress address;
  if (family == AF_INET6 &&
      std::memcmp(bytes, kWrapped.data(), kWrapped.size()) != 0) {
    address.family_ = AF_INET6;
    std::memcpy(address.bytes_.data(), bytes, 16);
    return address;
  }
  const size_t wrapping = family == AF_INET6 ? kWrapped.size() : 0;
  std::memcpy(address.bytes_.data(),
              static_cast<const uint8_t*>(bytes) + wrapping, 4);
  return address;
}

std::optional<IpAddress> IpAddress::Of(const sockaddr_storage& name) {
  if (name.ss_family == AF_INET) {
    return FromBytes(AF_INET,
                     &reinterpret_cast<const sockaddr_in&>(name).sin_addr);
  }
  if (name.ss_family == AF_INET6) {
    return FromBytes(AF_INET6,
                     &reinterpret_cast<const sockaddr_in6&>(name).sin6_addr);
  }
  return std::nullopt;
}

std::optional<IpAddress> IpAddress::Parse(int family, const std::string& text) {
  std::array<uint8_t, 16> bytes = {};
  // A string with a zero in it would be read up to there.
  if (text.size() != std::strlen(text.c_str()) ||
      inet_pton(family, text.c_str(), bytes.data()) != 1) {
    return std::nullopt;
  }
  return FromBytes(family, bytes.data());
}

std::string IpAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  inet_ntop(family_, bytes_.data(), text.data(), text.size());
  return text.data();
}

bool IpAddress::is_loopback() const {
  if (family_ == AF_INET) return bytes_[0] == IN_LOOPBACKNET;
  return std::memcmp(bytes_.data(), &in6addr_loopback, bytes_.size()) == 0;
}

int IpAddress::bits() const { return family_ == AF_INET ? 32 : 128; }

absl::StatusOr<IpNetwork> IpNetwork::Parse(const std::string& text) {
  const size_t slash = text.find('/');
  const std::string digits = text.substr(0, slash);
  const std::optional<IpAddress> first = IpAddress::Parse(
      digits.find(':') == digits.npos ? AF_INET : AF_INET6, digits);
  if (!first.has_value()) {
    return NoNetwork(
        "an address or a range of them, such as 10.0.0.7, 10.0.0.0/8 or "
        "fd00::/8",
        text);
  }
  int prefix = first->bits();
  if (slash != text.npos &&
      (!absl::SimpleAtoi(text.substr(slash + 1), &prefix) || prefix < 0 ||
       prefix > first->bits())) {
    return NoNetwork(
        absl::StrCat("a prefix of 0 to ", first->bits(), " bits behind /"),
        text);
  }
  IpAddress masked = *first;
  for (int i = prefix; i < first->bits(); ++i) {
    masked.bytes_[i / 8] &= static_cast<uint8_t>(~(0x80 >> i % 8));
  }
  if (masked != *first) {
    return NoNetwork(
        absl::StrCat("a range's first address, ", masked.text(), "/", prefix),
        text);
  }
  return IpNetwork(*first, prefix);
}

bool IpNetwork::Contains(const IpAddress& address) const {
  if (address.family_ != first_.family_) return false;
  for (int i = 0; i < prefix_; i += 8) {
    const int bits = std::min(prefix_ - i, 8);
    const int differing = address.bytes_[i / 8] ^ first_.bytes_[i / 8];
    if (differing >> (8 - bits) != 0) return false;
  }
  return true;
}

std::string IpNetwork::text() const {
  return absl::StrCat(first_.text(), "/", prefix_);
}

}  // namespace stoker
