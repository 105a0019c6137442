// An identity provider's key: signs tokens with Ed25519, and says its public
// half.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace stoker {

class TokenSigner {
 public:
  explicit TokenSigner(std::string id)
      : id_(std::move(id)),
        key_(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), EVP_PKEY_free) {}

  // A member of a JWK Set.
  std::string Jwk() const {
    std::string raw(32, '\0');
    size_t size = raw.size();
    EXPECT_EQ(
        EVP_PKEY_get_raw_public_key(
            key_.get(), reinterpret_cast<unsigned char*>(raw.data()), &size),
        1);
    return absl::StrCat(R"({"kty":"OKP","crv":"Ed25519","kid":")", id_,
                        R"(","x":")", absl::WebSafeBase64Escape(raw), R"("})");
  }
  std::string Jwks() const { return absl::StrCat(R"({"keys":[)", Jwk(), "]}"); }

  // `header` empty: what it should be.
  std::string Sign(const std::string& claims, std::string header = "") const {
    if (header.empty()) {
      header = absl::StrCat(R"({"alg":"EdDSA","kid":")", id_, R"("})");
    }
    const std::string text =
        absl::StrCat(absl::WebSafeBase64Escape(header), ".",
                     absl::WebSafeBase64Escape(claims));
    const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(
        EVP_MD_CTX_new(), EVP_MD_CTX_free);
    std::string signature(64, '\0');
    size_t size = signature.size();
    EXPECT_EQ(EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr,
                                 key_.get()),
              1);
    EXPECT_EQ(
        EVP_DigestSign(
            context.get(), reinterpret_cast<unsigned char*>(signature.data()),
            &size, reinterpret_cast<const unsigned char*>(text.data()),
            text.size()),
        1);
    return absl::StrCat(text, ".", absl::WebSafeBase64Escape(signature));
  }

 private:
  const std::string id_;
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key_;
};

}  // namespace stoker
