#include "access/jwk_set.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "access/audit_log.h"
#include "access/trusted_file.h"
#include "base/absl_view.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using nlohmann::json;

constexpr size_t kMaxSetBytes = 1 << 20;
constexpr size_t kMaxKeys = 256;
// What a signature is tried with at most: a try costs up to a tenth of a
// millisecond of a loop's time, and who sends the token chooses.
constexpr size_t kMaxTries = 4;
constexpr int kMinRsaBits = 2048;
constexpr int kMaxRsaBits = 4096;
constexpr size_t kCoordinateBytes = 32;  // of P-256, and of Ed25519's point

template <auto free>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using PublicKey = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Free<EVP_PKEY_CTX_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, Free<EVP_MD_CTX_free>>;
using BigNumber = std::unique_ptr<BIGNUM, Free<BN_free>>;
using Signature = std::unique_ptr<ECDSA_SIG, Free<ECDSA_SIG_free>>;
using Builder = std::unique_ptr<OSSL_PARAM_BLD, Free<OSSL_PARAM_BLD_free>>;
using Params = std::unique_ptr<OSSL_PARAM, Free<OSSL_PARAM_free>>;

// What OpenSSL notes of a failure would be taken for one of a connection's,
// later.
struct NoErrorsLeft {
  ~NoErrorsLeft() { ERR_clear_error(); }
};

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

BigNumber Number(std::string_view bytes) {
  return BigNumber(
      BN_bin2bn(Bytes(bytes), static_cast<int>(bytes.size()), nullptr));
}

// Null: the parts are no key of this type.
PublicKey FromParts(const char* type, OSSL_PARAM_BLD* parts) {
  const Params params(OSSL_PARAM_BLD_to_param(parts));
  const KeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  if (params == nullptr || context == nullptr ||
      EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY,
                        params.get()) != 1) {
    return nullptr;
  }
  return PublicKey(key);
}

PublicKey RsaKey(std::string_view n, std::string_view e) {
  const Builder parts(OSSL_PARAM_BLD_new());
  const BigNumber modulus = Number(n);
  const BigNumber exponent = Number(e);
  OSSL_PARAM_BLD_push_BN(parts.get(), OSSL_PKEY_PARAM_RSA_N, modulus.get());
  OSSL_PARAM_BLD_push_BN(parts.get(), OSSL_PKEY_PARAM_RSA_E, exponent.get());
  return FromParts("RSA", parts.get());
}

PublicKey P256Key(std::string_view x, std::string_view y) {
  if (x.size() != kCoordinateBytes || y.size() != kCoordinateBytes) {
    return nullptr;
  }
  constexpr std::string_view kUncompressed = "\x04";
  const std::string point = absl::StrCat(Absl(kUncompressed), Absl(x), Absl(y));
  const Builder parts(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_utf8_string(parts.get(), OSSL_PKEY_PARAM_GROUP_NAME,
                                  "P-256", 0);
  OSSL_PARAM_BLD_push_octet_string(parts.get(), OSSL_PKEY_PARAM_PUB_KEY,
                                   point.data(), point.size());
  return FromParts("EC", parts.get());
}

PublicKey Ed25519Key(std::string_view x) {
  return PublicKey(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr,
                                               Bytes(x), x.size()));
}

bool VerifyDigest(EVP_PKEY* key, const EVP_MD* digest, bool pss,
                  std::string_view message, std::string_view signature) {
  const DigestContext context(EVP_MD_CTX_new());
  EVP_PKEY_CTX* options = nullptr;  // the context's
  if (context == nullptr || EVP_DigestVerifyInit(context.get(), &options,
                                                 digest, nullptr, key) != 1) {
    return false;
  }
  if (pss &&
      (EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) != 1 ||
       EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) !=
           1)) {
    return false;
  }
  return EVP_DigestVerify(context.get(), Bytes(signature), signature.size(),
                          Bytes(message), message.size()) == 1;
}

bool VerifyRs256(EVP_PKEY* key, std::string_view message,
                 std::string_view signature) {
  return VerifyDigest(key, EVP_sha256(), false, message, signature);
}
bool VerifyPs256(EVP_PKEY* key, std::string_view message,
                 std::string_view signature) {
  return VerifyDigest(key, EVP_sha256(), true, message, signature);
}
bool VerifyEdDsa(EVP_PKEY* key, std::string_view message,
                 std::string_view signature) {
  return VerifyDigest(key, nullptr, false, message, signature);
}

// A token has the two numbers one after the other, OpenSSL wants ASN.1.
bool VerifyEs256(EVP_PKEY* key, std::string_view message,
                 std::string_view signature) {
  if (signature.size() != 2 * kCoordinateBytes) return false;
  const Signature numbers(ECDSA_SIG_new());
  BigNumber r = Number(signature.substr(0, kCoordinateBytes));
  BigNumber s = Number(signature.substr(kCoordinateBytes));
  if (numbers == nullptr ||
      ECDSA_SIG_set0(numbers.get(), r.get(), s.get()) != 1) {
    return false;
  }
  // They are the signature's from here on.
  static_cast<void>(r.release());
  static_cast<void>(s.release());
  std::array<unsigned char, 80> encoded;  // 72 at most
  unsigned char* end = encoded.data();
  const int size = i2d_ECDSA_SIG(numbers.get(), &end);
  if (size <= 0) return false;
  return VerifyDigest(key, EVP_sha256(), false, message,
                      {reinterpret_cast<const char*>(encoded.data()),
                       static_cast<size_t>(size)});
}

struct Algorithm {
  std::string_view name;
  std::string_view key_type;  // JWK's
  bool (*verify)(EVP_PKEY*, std::string_view message,
                 std::string_view signature);
};
constexpr Algorithm kAlgorithms[] = {
    {"RS256", "RSA", VerifyRs256},
    {"PS256", "RSA", VerifyPs256},
    {"ES256", "EC", VerifyEs256},
    {"EdDSA", "OKP", VerifyEdDsa},
};
constexpr char kNames[] = "RS256, PS256, ES256 or EdDSA";

const Algorithm* FindAlgorithm(std::string_view name) {
  for (const Algorithm& one : kAlgorithms) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

// Empty: there is none, or it is no text.
std::string TextOf(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return "";
  return found->get<std::string>();
}

}  // namespace

std::optional<std::string> DecodeBase64Url(std::string_view text) {
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(Absl(text), &bytes) ||
      absl::WebSafeBase64Escape(bytes) != Absl(text)) {
    return std::nullopt;
  }
  return bytes;
}

struct JwkSet::Key {
  std::string id;         // empty: it has none
  std::string type;       // "RSA"
  std::string algorithm;  // that it is for; empty: any of its type
  PublicKey key;
};

JwkSet::JwkSet() = default;
JwkSet::JwkSet(JwkSet&&) noexcept = default;
JwkSet::~JwkSet() = default;

size_t JwkSet::size() const { return keys_.size(); }

class JwkReader {
 public:
  explicit JwkReader(const std::string& path) : path_(path) {}

  absl::StatusOr<JwkSet> Read(const json& set);

 private:
  absl::Status Read(const json& one, size_t number);
  absl::Status Wrong(size_t number, std::string_view expected,
                     std::string_view got) const {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": keys[", number, "]: expected ", Absl(expected),
                     ", got ", Absl(got)));
  }

  const std::string path_;
  JwkSet set_;
};

absl::StatusOr<JwkSet> JwkReader::Read(const json& set) {
  const NoErrorsLeft clean;
  const auto wrong = [this](std::string_view got) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_,
                     ": expected a JWK Set, {\"keys\": [...]} in JSON, "
                     "got ",
                     Absl(got)));
  };
  if (set.is_discarded()) return wrong("no JSON");
  if (!set.is_object()) return wrong(set.type_name());
  const auto keys = set.find("keys");
  if (keys == set.end() || !keys->is_array()) return wrong("no keys");
  if (keys->size() > kMaxKeys) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": expected at most ", kMaxKeys, " keys, got ", keys->size()));
  }
  for (size_t i = 0; i < keys->size(); ++i) {
    RETURN_IF_ERROR(Read((*keys)[i], i));
  }
  if (set_.keys_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": expected at least one key for ", kNames,
                     ", got none among ", keys->size()));
  }
  return std::move(set_);
}

// A set may have keys that are for something else, or of kinds to come.
absl::Status JwkReader::Read(const json& one, size_t number) {
  if (!one.is_object()) return Wrong(number, "an object", one.type_name());
  JwkSet::Key key;
  key.id = TextOf(one, "kid");
  key.type = TextOf(one, "kty");
  key.algorithm = TextOf(one, "alg");
  const std::string curve = TextOf(one, "crv");
  const std::string use = TextOf(one, "use");
  if (one.contains("d") || one.contains("k")) {
    return Wrong(number, "a public key", "one with its secret part");
  }
  if (!use.empty() && use != "sig") return absl::OkStatus();
  if (!key.algorithm.empty() && FindAlgorithm(key.algorithm) == nullptr) {
    return absl::OkStatus();
  }
  const auto part = [&one](const char* name) {
    return DecodeBase64Url(TextOf(one, name)).value_or("");
  };
  if (key.type == "RSA") {
    key.key = RsaKey(part("n"), part("e"));
    const int bits = key.key == nullptr ? 0 : EVP_PKEY_get_bits(key.key.get());
    if (bits < kMinRsaBits || bits > kMaxRsaBits) {
      return Wrong(number,
                   absl::StrCat("n and e of an RSA key of ", kMinRsaBits,
                                " to ", kMaxRsaBits, " bits"),
                   bits == 0 ? "others" : absl::StrCat(bits, " bits"));
    }
  } else if (key.type == "EC" && curve == "P-256") {
    key.key = P256Key(part("x"), part("y"));
    if (key.key == nullptr) {
      return Wrong(number, "x and y of a point of P-256", "others");
    }
  } else if (key.type == "OKP" && curve == "Ed25519") {
    key.key = Ed25519Key(part("x"));
    if (key.key == nullptr) return Wrong(number, "x of Ed25519", "another");
  } else {
    return absl::OkStatus();
  }
  set_.keys_.push_back(std::move(key));
  return absl::OkStatus();
}

absl::StatusOr<JwkSet> JwkSet::Parse(std::string_view text,
                                     const std::string& path) {
  return JwkReader(path).Read(ReadJson(text));
}

absl::StatusOr<JwkSet> JwkSet::Read(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTrusted(path, kMaxSetBytes));
  return Parse(text, path);
}

absl::Status JwkSet::Verify(std::string_view algorithm,
                            const std::optional<std::string>& key_id,
                            std::string_view message,
                            std::string_view signature) const {
  const Algorithm* const known = FindAlgorithm(algorithm);
  if (known == nullptr) {
    return absl::UnauthenticatedError(absl::StrCat("expected a JWT signed by ",
                                                   kNames, ", got alg '",
                                                   ShownName(algorithm), "'"));
  }
  std::vector<const Key*> suited;
  for (const Key& key : keys_) {
    if (key.type != known->key_type) continue;
    if (!key.algorithm.empty() && key.algorithm != algorithm) continue;
    if (key_id.has_value() && key.id != *key_id) continue;
    suited.push_back(&key);
  }
  if (suited.empty()) {
    return absl::UnauthenticatedError(absl::StrCat(
        "expected a JWT signed by a key of the policy's key set, got ",
        Absl(algorithm),
        key_id.has_value() ? absl::StrCat(" by key '", ShownName(*key_id), "'")
                           : std::string()));
  }
  if (suited.size() > kMaxTries) {
    return absl::UnauthenticatedError(
        "expected a JWT whose header names its key (kid), got one that could "
        "be signed by many");
  }
  const NoErrorsLeft clean;
  for (const Key* key : suited) {
    if (known->verify(key->key.get(), message, signature)) {
      return absl::OkStatus();
    }
  }
  return absl::UnauthenticatedError(
      "expected a JWT signed by a key of the policy's key set, got another "
      "signature");
}

}  // namespace stoker
