#include "kernel_cache/artifact_key.h"

#include <string_view>
#include <utility>

#include "base/sha256.h"

namespace stoker {
namespace {

constexpr size_t kHexDigits = 64;
constexpr std::string_view kHexAlphabet = "0123456789abcdef";

void AppendJsonString(std::string_view text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    constexpr std::string_view kShort = "\b\f\n\r\t\"\\";
    constexpr std::string_view kShortNames = "bfnrt\"\\";
    if (const size_t at = kShort.find(c); at != std::string_view::npos) {
      out->push_back('\\');
      out->push_back(kShortNames[at]);
    } else if (byte < 0x20) {
      out->append("\\u00");
      out->push_back(kHexAlphabet[byte >> 4]);
      out->push_back(kHexAlphabet[byte & 15]);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

}  // namespace

std::string CanonicalJson(const KeyFactors& factors) {
  std::string text = "{";
  for (const auto& [name, value] : factors) {
    if (text.size() > 1) text.push_back(',');
    AppendJsonString(name, &text);
    text.push_back(':');
    AppendJsonString(value, &text);
  }
  text.push_back('}');
  return text;
}

ArtifactKey::ArtifactKey(const KeyFactors& factors)
    : hex_(Sha256Hex(CanonicalJson(factors))) {}

ArtifactKey ArtifactKey::FromHex(std::string hex) {
  ArtifactKey key;
  if (hex.size() == kHexDigits &&
      hex.find_first_not_of(kHexAlphabet) == std::string::npos) {
    key.hex_ = std::move(hex);
  }
  return key;
}

}  // namespace stoker
