// Who vouches for a pack: Ed25519 signatures (RFC 8032) by OpenSSL, and the
// policy that says whose artifacts, which are native code, may be opened.
//
// Keys are PEM files as OpenSSL writes them:
//
//   openssl genpkey -algorithm ed25519 -out signing.pem    (mode 0600)
//   openssl pkey -in signing.pem -pubout -out trusted.pem
//
// Values; thread-safe as such.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace stoker {

class PublicKey {
 public:
  // INVALID_ARGUMENT when the file holds no Ed25519 public key.
  static absl::StatusOr<PublicKey> Load(const std::string& path);
  static absl::StatusOr<std::vector<PublicKey>> LoadAll(
      const std::vector<std::string>& paths);
  // Its 32 bytes.
  static absl::StatusOr<PublicKey> FromRaw(std::string_view raw);

  // Whether the owner of this key signed exactly these bytes.
  bool Verifies(std::string_view message, std::string_view signature) const;

  const std::string& raw() const { return raw_; }
  // The first 16 hexadecimal digits of SHA-256 of the raw key: a name for
  // people. Keys are compared whole.
  std::string Fingerprint() const;

  friend bool operator==(const PublicKey&, const PublicKey&) = default;

 private:
  explicit PublicKey(std::string raw) : raw_(std::move(raw)) {}
  std::string raw_;
};

class SigningKey {
 public:
  // PERMISSION_DENIED when anybody but the file's owner may read it,
  // INVALID_ARGUMENT when it holds no Ed25519 private key without a passphrase.
  static absl::StatusOr<SigningKey> Load(const std::string& path);

  absl::StatusOr<PublicKey> Public() const;
  // 64 bytes, the same ones for the same message.
  absl::StatusOr<std::string> Sign(std::string_view message) const;

 private:
  struct Free {
    void operator()(evp_pkey_st* key) const;
  };
  using Handle = std::unique_ptr<evp_pkey_st, Free>;
  explicit SigningKey(Handle key) : key_(std::move(key)) {}

  Handle key_;
};

// {"algorithm":"ed25519","public_key":"<base64>","signature":"<base64>"}; the
// signature is over the bytes of `message`. The public key is there to name an
// unknown signer, not to be trusted.
absl::StatusOr<std::string> SignedBy(const SigningKey& key,
                                     std::string_view message);

struct SignaturePolicy {
  std::vector<PublicKey> trusted;
  // Also lets in what somebody else signed: whoever can change a pack could
  // take that signature off anyway. A signature that is wrong is refused
  // nevertheless.
  bool allow_unsigned = false;
};

struct SignatureVerdict {
  enum class Kind {
    kTrusted,   // signed by a trusted key
    kUnknown,   // properly signed, by another key
    kUnsigned,  // no signature
    kWrong,     // a signature that does not fit the message, or is none
  };
  Kind kind = Kind::kUnsigned;
  std::string signer;  // fingerprint; empty when there is no public key
  std::string detail;  // of kWrong: what was expected and what came
};

SignatureVerdict CheckSignature(std::string_view message,
                                const std::optional<std::string>& signature,
                                const std::vector<PublicKey>& trusted);

// OK, PERMISSION_DENIED for what the policy keeps out, or INVALID_ARGUMENT for
// a wrong signature.
absl::Status Permit(const SignaturePolicy& policy,
                    const SignatureVerdict& verdict);

}  // namespace stoker
