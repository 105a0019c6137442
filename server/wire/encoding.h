// The compressions of messages, and what headers call them.
//
// Thread-safe: pure functions.
#pragma once

#include <optional>
#include <string_view>

namespace stoker {

enum class Encoding { kIdentity, kDeflate, kGzip };

// "gzip"; what "grpc-encoding" and "Content-Encoding" say.
const char* EncodingName(Encoding encoding);
// The inverse; nullopt: it is none that is known here.
std::optional<Encoding> ParseEncoding(std::string_view name);

class EncodingSet {
 public:
  EncodingSet() = default;
  // "identity, gzip"; what is unknown is left out.
  static EncodingSet Parse(std::string_view list);

  bool Has(Encoding encoding) const {
    return (bits_ >> static_cast<int>(encoding) & 1) != 0;
  }

 private:
  unsigned bits_ = 0;
};

}  // namespace stoker
