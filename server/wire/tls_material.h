// Certificates and keys from files, checked and put together to what OpenSSL
// makes connections from.
//
// Thread-safe: functions.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wire/tls_context.h"

namespace stoker {

struct FreeSsl {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(BIO* bio) const { BIO_free(bio); }
};

struct TlsMaterial {
  std::shared_ptr<SSL_CTX> context;
  absl::Time expires;    // the server's certificate
  std::string warnings;  // a line each; what people should know all the same
};

// The context asks clients for certificates where there is a client CA; whom it
// lets in beyond that is the caller's. INVALID_ARGUMENT or the system's code,
// with the file and the reason.
absl::StatusOr<TlsMaterial> LoadTlsMaterial(const TlsOptions& options,
                                            absl::Time now);

// One of a certificate's subject: DNS, URI or e-mail.
struct AlternativeName {
  std::string text;
  bool is_host = false;  // DNS
};
std::vector<AlternativeName> AlternativeNames(const X509* certificate);

// The text of OpenSSL's last error, which is forgotten.
std::string TakeSslError();

}  // namespace stoker
