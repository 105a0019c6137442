// SHA-256 (FIPS 180-4), by OpenSSL's libcrypto.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace stoker {

// The digest of bytes that come in pieces. Movable; one thread at a time.
class Sha256 {
 public:
  Sha256();
  void Add(std::string_view bytes);
  // 64 lower-case hexadecimal digits; ends the digest.
  std::string Hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// 64 lower-case hexadecimal digits.
std::string Sha256Hex(std::string_view bytes);

// The same of a whole file. NOT_FOUND or the errno's code when it can't be
// read.
absl::StatusOr<std::string> Sha256File(const std::string& path);

}  // namespace stoker
