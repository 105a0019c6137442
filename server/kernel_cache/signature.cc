#include "kernel_cache/signature.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/errno_status.h"
#include "base/file_stream.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using Json = nlohmann::json;
using Kind = SignatureVerdict::Kind;

constexpr size_t kKeyBytes = 32;
constexpr size_t kSignatureBytes = 64;
constexpr size_t kFingerprintDigits = 16;
// A PEM file with comments is far smaller.
constexpr size_t kMaxPemBytes = size_t{64} * 1024;

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// Instead of OpenSSL's own question on the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

absl::StatusOr<std::string> ReadPem(const std::string& path,
                                    bool only_for_owner) {
  ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  if (only_for_owner) {
    struct stat info;
    if (fstat(file.descriptor(), &info) != 0) {
      return ErrnoStatus(errno, absl::StrCat("stat ", path));
    }
    if ((info.st_mode & 077) != 0) {
      return absl::PermissionDeniedError(
          absl::StrCat("signing key ", path, " may be read by others (mode 0",
                       info.st_mode >> 6 & 7, info.st_mode >> 3 & 7,
                       info.st_mode & 7, "), expected 0600"));
    }
  }
  std::string pem(kMaxPemBytes, '\0');
  ASSIGN_OR_RETURN(const size_t bytes, file.Read(pem.data(), pem.size()));
  pem.resize(bytes);
  return pem;
}

absl::Status NotAKey(const std::string& path, std::string_view expected,
                     const EVP_PKEY* found) {
  ERR_clear_error();
  const char* name =
      found == nullptr ? nullptr : EVP_PKEY_get0_type_name(found);
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": expected ", Absl(expected), " in PEM form, found ",
      name == nullptr ? "none" : absl::StrCat("one of type ", name)));
}

absl::StatusOr<PublicKey> PublicHalf(const EVP_PKEY* key) {
  std::string raw(kKeyBytes, '\0');
  size_t size = raw.size();
  if (EVP_PKEY_get_raw_public_key(
          key, reinterpret_cast<unsigned char*>(raw.data()), &size) != 1) {
    ERR_clear_error();
    return absl::InternalError("Ed25519 key: OpenSSL gave no public key");
  }
  raw.resize(size);
  return PublicKey::FromRaw(raw);
}

std::string SignatureJson(std::string_view public_key,
                          std::string_view signature) {
  return JsonText(Json{{"algorithm", "ed25519"},
                       {"public_key", absl::Base64Escape(Absl(public_key))},
                       {"signature", absl::Base64Escape(Absl(signature))}});
}

struct ParsedSignature {
  std::string public_key;
  std::string signature;
};

// nullopt unless the text is, byte for byte, what SignatureJson makes.
std::optional<ParsedSignature> Parse(const std::string& text) {
  const Json json = ReadJson(text);
  ParsedSignature parsed;
  if (!absl::Base64Unescape(TextField(json, "public_key"),
                            &parsed.public_key) ||
      !absl::Base64Unescape(TextField(json, "signature"), &parsed.signature) ||
      SignatureJson(parsed.public_key, parsed.signature) != text) {
    return std::nullopt;
  }
  return parsed;
}

}  // namespace

absl::StatusOr<PublicKey> PublicKey::Load(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string pem,
                   ReadPem(path, /*only_for_owner=*/false));
  const std::unique_ptr<BIO, FreeBio> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const Key key(PEM_read_bio_PUBKEY(bio.get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr || EVP_PKEY_get_id(key.get()) != EVP_PKEY_ED25519) {
    return NotAKey(path, "an Ed25519 public key", key.get());
  }
  return PublicHalf(key.get());
}

absl::StatusOr<std::vector<PublicKey>> PublicKey::LoadAll(
    const std::vector<std::string>& paths) {
  std::vector<PublicKey> keys;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(PublicKey key, Load(path));
    keys.push_back(std::move(key));
  }
  return keys;
}

absl::StatusOr<PublicKey> PublicKey::FromRaw(std::string_view raw) {
  if (raw.size() != kKeyBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an Ed25519 public key has ", kKeyBytes, " bytes, found ", raw.size()));
  }
  return PublicKey(std::string(raw));
}

bool PublicKey::Verifies(std::string_view message,
                         std::string_view signature) const {
  if (signature.size() != kSignatureBytes) return false;
  const Key key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr,
                                            Bytes(raw_), raw_.size()));
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  const bool verified =
      key != nullptr && context != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr,
                           key.get()) == 1 &&
      EVP_DigestVerify(context.get(), Bytes(signature), signature.size(),
                       Bytes(message), message.size()) == 1;
  ERR_clear_error();
  return verified;
}

std::string PublicKey::Fingerprint() const {
  return Sha256Hex(raw_).substr(0, kFingerprintDigits);
}

void SigningKey::Free::operator()(evp_pkey_st* key) const {
  EVP_PKEY_free(key);
}

absl::StatusOr<SigningKey> SigningKey::Load(const std::string& path) {
  ASSIGN_OR_RETURN(std::string pem, ReadPem(path, /*only_for_owner=*/true));
  const absl::Cleanup wipe = [&pem] {
    OPENSSL_cleanse(pem.data(), pem.size());
  };
  const std::unique_ptr<BIO, FreeBio> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  Handle key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr || EVP_PKEY_get_id(key.get()) != EVP_PKEY_ED25519) {
    return NotAKey(path, "an Ed25519 private key without a passphrase",
                   key.get());
  }
  return SigningKey(std::move(key));
}

absl::StatusOr<PublicKey> SigningKey::Public() const {
  return PublicHalf(key_.get());
}

absl::StatusOr<std::string> SigningKey::Sign(std::string_view message) const {
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  std::array<unsigned char, kSignatureBytes> signature;
  size_t size = signature.size();
  if (context == nullptr ||
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr,
                         key_.get()) != 1 ||
      EVP_DigestSign(context.get(), signature.data(), &size, Bytes(message),
                     message.size()) != 1) {
    ERR_clear_error();
    return absl::InternalError("Ed25519: OpenSSL could not sign");
  }
  return std::string(reinterpret_cast<const char*>(signature.data()), size);
}

absl::StatusOr<std::string> SignedBy(const SigningKey& key,
                                     std::string_view message) {
  ASSIGN_OR_RETURN(const PublicKey public_key, key.Public());
  ASSIGN_OR_RETURN(const std::string signature, key.Sign(message));
  return SignatureJson(public_key.raw(), signature);
}

SignatureVerdict CheckSignature(std::string_view message,
                                const std::optional<std::string>& signature,
                                const std::vector<PublicKey>& trusted) {
  if (!signature.has_value()) return {.kind = Kind::kUnsigned};
  const std::optional<ParsedSignature> parsed = Parse(*signature);
  if (!parsed.has_value()) {
    return {.kind = Kind::kWrong,
            .detail =
                "expected {\"algorithm\":\"ed25519\",\"public_key\":...,"
                "\"signature\":...}, found something else"};
  }
  const absl::StatusOr<PublicKey> key = PublicKey::FromRaw(parsed->public_key);
  if (!key.ok()) {
    return {.kind = Kind::kWrong,
            .detail = std::string(key.status().message())};
  }
  SignatureVerdict verdict{.signer = key->Fingerprint()};
  if (!key->Verifies(message, parsed->signature)) {
    verdict.kind = Kind::kWrong;
    verdict.detail = absl::StrCat("expected one that key ", verdict.signer,
                                  " made of these bytes, found another");
    return verdict;
  }
  const bool known =
      std::find(trusted.begin(), trusted.end(), *key) != trusted.end();
  verdict.kind = known ? Kind::kTrusted : Kind::kUnknown;
  return verdict;
}

absl::Status Permit(const SignaturePolicy& policy,
                    const SignatureVerdict& verdict) {
  const std::string expected =
      absl::StrCat(", expected one of ", policy.trusted.size(),
                   " trusted keys (artifacts are native code)");
  switch (verdict.kind) {
    case Kind::kTrusted:
      return absl::OkStatus();
    case Kind::kUnknown:
      if (policy.allow_unsigned) return absl::OkStatus();
      return absl::PermissionDeniedError(
          absl::StrCat("signed by unknown key ", verdict.signer, expected));
    case Kind::kUnsigned:
      if (policy.allow_unsigned) return absl::OkStatus();
      return absl::PermissionDeniedError(absl::StrCat("not signed", expected));
    case Kind::kWrong:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("signature: ", verdict.detail));
}

}  // namespace stoker
