// Public keys that tokens are signed for: a JWK Set (RFC 7517), as identity
// providers publish it, in a file. Verifies RS256, PS256, ES256 and EdDSA
// (Ed25519); keys of other kinds are left out.
//
// Immutable once read.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace stoker {

// The bytes that are written so, without padding; nullopt: it is not the one
// way in which any bytes are.
std::optional<std::string> DecodeBase64Url(std::string_view text);

class JwkSet {
 public:
  // INVALID_ARGUMENT: no such set, one with private keys, or without any key
  // that is known here; with the file, the key, what was expected and what
  // came. No error shows a key.
  static absl::StatusOr<JwkSet> Parse(std::string_view text,
                                      const std::string& path);
  // The same of a file, which others than its owner's group may not write.
  static absl::StatusOr<JwkSet> Read(const std::string& path);

  JwkSet(JwkSet&&) noexcept;
  JwkSet& operator=(JwkSet&&) = delete;
  ~JwkSet();

  // Whether one of the keys has signed it. `algorithm` and `key_id` are what
  // the token says of itself. UNAUTHENTICATED: why not, without the token.
  absl::Status Verify(std::string_view algorithm,
                      const std::optional<std::string>& key_id,
                      std::string_view message,
                      std::string_view signature) const;

  size_t size() const;

 private:
  struct Key;
  friend class JwkReader;
  JwkSet();

  std::vector<Key> keys_;
};

}  // namespace stoker
