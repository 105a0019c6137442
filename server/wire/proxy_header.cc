#include "wire/proxy_header.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/absl_view.h"

namespace stoker {
namespace {

using MaybeHeader = absl::StatusOr<std::optional<ProxyHeader>>;

constexpr std::string_view kFirstVersion = "PROXY ";
constexpr size_t kMaxLine = 107;  // of version 1, its end included

constexpr std::string_view kSecondVersion("\r\n\r\n\0\r\nQUIT\n", 12);
constexpr size_t kFixed = 16;  // of version 2: up to the addresses
constexpr uint8_t kLocal = 0x20, kProxy = 0x21;  // with the version

// What is shown of a connection that begins otherwise.
constexpr size_t kShown = 24;

absl::Status NoHeader(std::string_view expected, std::string_view bytes) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", Absl(expected), ", got \"",
                   absl::CHexEscape(Absl(bytes.substr(0, kShown))), "\"",
                   bytes.size() > kShown ? "…" : ""));
}

bool IsPort(const std::string& text) {
  int port = 0;
  const bool digits = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  return digits && text.size() <= 5 && (text.size() == 1 || text[0] != '0') &&
         absl::SimpleAtoi(text, &port) && port <= UINT16_MAX;
}

// "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n"
MaybeHeader ReadFirst(std::string_view bytes) {
  const size_t end = bytes.substr(0, kMaxLine).find('\n');
  if (end == bytes.npos) {
    if (bytes.size() < kMaxLine) return std::nullopt;
    return NoHeader("a PROXY line of at most 107 bytes", bytes);
  }
  ProxyHeader header;
  header.size = end + 1;
  std::vector<std::string> words;
  if (bytes[end - 1] == '\r') {
    words = absl::StrSplit(Absl(bytes.substr(0, end - 1)), ' ');
    if (words[1] == "UNKNOWN") return header;
  }
  if (words.size() == 6 && (words[1] == "TCP4" || words[1] == "TCP6")) {
    const int family = words[1] == "TCP4" ? AF_INET : AF_INET6;
    header.source = IpAddress::Parse(family, words[2]);
    if (header.source.has_value() && IsPort(words[4]) && IsPort(words[5]) &&
        IpAddress::Parse(family, words[3]).has_value()) {
      return header;
    }
  }
  return NoHeader(
      "\"PROXY TCP4|TCP6 SOURCE DESTINATION PORT PORT\\r\\n\" or \"PROXY "
      "UNKNOWN\\r\\n\"",
      bytes);
}

// Of version 2: family and transport.
constexpr uint8_t kUnspecified = 0x00, kTcp4 = 0x11, kUdp4 = 0x12, kTcp6 = 0x21,
                  kUdp6 = 0x22, kUnixStream = 0x31, kUnixDatagram = 0x32;

// How long both addresses and their ports are; nullopt: there is no such kind.
std::optional<size_t> AddressBytes(uint8_t kind) {
  switch (kind) {
    case kUnspecified:
      return 0;
    case kTcp4:
    case kUdp4:
      return 12;
    case kTcp6:
    case kUdp6:
      return 36;
    case kUnixStream:
    case kUnixDatagram:
      return 216;
    default:
      return std::nullopt;
  }
}

MaybeHeader ReadSecond(std::string_view bytes) {
  if (bytes.size() < kFixed) return std::nullopt;
  const auto byte = [&bytes](size_t at) {
    return static_cast<uint8_t>(bytes[at]);
  };
  const uint8_t command = byte(12), kind = byte(13);
  const size_t length = size_t{byte(14)} << 8 | byte(15);
  if (command != kLocal && command != kProxy) {
    return NoHeader("version 2 and LOCAL or PROXY in a PROXY header", bytes);
  }
  if (kFixed + length > kMaxProxyHeader) {
    return NoHeader(
        absl::StrCat("a PROXY header of at most ", kMaxProxyHeader, " bytes"),
        bytes);
  }
  // Of LOCAL's addresses the specification wants nothing to be made.
  const std::optional<size_t> least =
      command == kLocal ? 0 : AddressBytes(kind);
  if (!least.has_value() || length < *least) {
    return NoHeader("a kind of addresses and all of them in a PROXY header",
                    bytes);
  }
  if (bytes.size() < kFixed + length) return std::nullopt;
  ProxyHeader header;
  header.size = kFixed + length;
  if (command == kProxy && (kind == kTcp4 || kind == kTcp6)) {
    header.source = IpAddress::FromBytes(kind == kTcp4 ? AF_INET : AF_INET6,
                                         bytes.data() + kFixed);
  }
  return header;
}

bool BeginsLike(std::string_view bytes, std::string_view signature) {
  const size_t size = std::min(bytes.size(), signature.size());
  return bytes.substr(0, size) == signature.substr(0, size);
}

}  // namespace

MaybeHeader ReadProxyHeader(std::string_view bytes) {
  const bool first = BeginsLike(bytes, kFirstVersion);
  if (!first && !BeginsLike(bytes, kSecondVersion)) {
    return NoHeader("a PROXY header", bytes);
  }
  if (bytes.size() < (first ? kFirstVersion : kSecondVersion).size())
    return std::nullopt;
  return first ? ReadFirst(bytes) : ReadSecond(bytes);
}

}  // namespace stoker
