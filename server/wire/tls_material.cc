#include "wire/tls_material.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

using Certificate = std::unique_ptr<X509, FreeSsl>;
using Key = std::unique_ptr<EVP_PKEY, FreeSsl>;
using Bio = std::unique_ptr<BIO, FreeSsl>;

// HTTP/2 wants suites with ephemeral keys that authenticate what they encrypt;
// TLS 1.3 has no others.
constexpr char kSuites[] = "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL";
constexpr char kSuites13[] =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_"
    "SHA256";

constexpr unsigned char kSessions[] = "stoker";

// Instead of OpenSSL's own question on the terminal.
int NoWord(char*, int, int, void*) { return 0; }

absl::Status Wrong(const std::string& path, const std::string& what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

absl::StatusOr<Bio> OpenPem(const std::string& pem) {
  Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  if (bio == nullptr) return absl::ResourceExhaustedError("no memory");
  return bio;
}

// All of a file, in its order.
absl::StatusOr<std::vector<Certificate>> ReadCertificates(
    const std::string& path) {
  ASSIGN_OR_RETURN(const std::string pem, Files::Real().Read(path));
  ASSIGN_OR_RETURN(const Bio bio, OpenPem(pem));
  std::vector<Certificate> found;
  for (;;) {
    Certificate one(PEM_read_bio_X509(bio.get(), nullptr, NoWord, nullptr));
    if (one == nullptr) break;
    found.push_back(std::move(one));
  }
  // What ends the file is that nothing begins any more.
  const bool at_end =
      ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (found.empty() || !at_end) {
    return Wrong(path, absl::StrCat("expected certificates in PEM form, found ",
                                    at_end ? "none" : "half a one"));
  }
  ERR_clear_error();
  return found;
}

absl::StatusOr<Key> ReadKey(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string pem, Files::Real().Read(path));
  ASSIGN_OR_RETURN(const Bio bio, OpenPem(pem));
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoWord, nullptr));
  if (key == nullptr) {
    return Wrong(path,
                 "expected a private key in PEM form without a passphrase, "
                 "found none");
  }
  return key;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfiniteFuture();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

absl::Time End(const Certificate& certificate) {
  return TimeOf(X509_get0_notAfter(certificate.get()));
}

absl::Status UseOwn(const TlsOptions& options, absl::Time now, SSL_CTX* context,
                    TlsMaterial& material) {
  ASSIGN_OR_RETURN(const std::vector<Certificate> chain,
                   ReadCertificates(options.certificate));
  ASSIGN_OR_RETURN(const Key key, ReadKey(options.key));
  const Certificate& own = chain.front();
  material.expires = End(own);
  if (material.expires <= now) {
    return Wrong(
        options.certificate,
        absl::StrCat("expired at ",
                     absl::FormatTime(material.expires, absl::UTCTimeZone())));
  }
  if (TimeOf(X509_get0_notBefore(own.get())) > now) {
    absl::StrAppend(&material.warnings, options.certificate,
                    ": is not valid yet\n");
  }
  if (X509_check_private_key(own.get(), key.get()) != 1) {
    return Wrong(options.key, absl::StrCat("is not the key of the certificate ",
                                           options.certificate));
  }
  if (SSL_CTX_use_certificate(context, own.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return Wrong(options.certificate, TakeSslError());
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1) {
      return Wrong(options.certificate, TakeSslError());
    }
  }
  struct stat info;
  if (stat(options.key.c_str(), &info) == 0 && (info.st_mode & 07) != 0) {
    absl::StrAppend(&material.warnings, options.key,
                    ": everybody on this machine may read or write the key\n");
  }
  return absl::OkStatus();
}

absl::Status UseClientAuthorities(const std::string& path, absl::Time now,
                                  SSL_CTX* context) {
  ASSIGN_OR_RETURN(const std::vector<Certificate> authorities,
                   ReadCertificates(path));
  bool valid = false;
  for (const Certificate& authority : authorities) {
    if (X509_check_ca(authority.get()) == 0) {
      return Wrong(path,
                   "expected certificates of authorities, found one that may "
                   "not sign others (no CA:TRUE)");
    }
    valid = valid || End(authority) > now;
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) !=
            1 ||
        SSL_CTX_add_client_CA(context, authority.get()) != 1) {
      return Wrong(path, TakeSslError());
    }
  }
  return valid ? absl::OkStatus() : Wrong(path, "expired");
}

}  // namespace

std::vector<AlternativeName> AlternativeNames(const X509* certificate) {
  auto* const names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  std::vector<AlternativeName> found;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names, i);
    if (name->type != GEN_DNS && name->type != GEN_URI &&
        name->type != GEN_EMAIL) {
      continue;
    }
    const ASN1_IA5STRING* const text = name->d.ia5;
    found.push_back(
        {std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                     static_cast<size_t>(ASN1_STRING_length(text))),
         name->type == GEN_DNS});
  }
  GENERAL_NAMES_free(names);
  return found;
}

std::string TakeSslError() {
  const unsigned long code = ERR_peek_last_error();
  const char* text = ERR_reason_error_string(code);
  ERR_clear_error();
  return text == nullptr ? "unknown error of OpenSSL" : text;
}

absl::StatusOr<TlsMaterial> LoadTlsMaterial(const TlsOptions& options,
                                            absl::Time now) {
  ERR_clear_error();
  TlsMaterial material;
  material.context =
      std::shared_ptr<SSL_CTX>(SSL_CTX_new(TLS_server_method()), FreeSsl());
  SSL_CTX* const context = material.context.get();
  if (context == nullptr) return absl::InternalError(TakeSslError());
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE |
                                   SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (SSL_CTX_set_min_proto_version(
          context, options.only_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_cipher_list(context, kSuites) != 1 ||
      SSL_CTX_set_ciphersuites(context, kSuites13) != 1 ||
      SSL_CTX_set_session_id_context(context, kSessions, sizeof(kSessions)) !=
          1) {
    return absl::InternalError(TakeSslError());
  }
  RETURN_IF_ERROR(UseOwn(options, now, context, material));
  if (!options.client_ca.empty()) {
    RETURN_IF_ERROR(UseClientAuthorities(options.client_ca, now, context));
  }
  return material;
}

}  // namespace stoker
