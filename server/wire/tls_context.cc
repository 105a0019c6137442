#include "wire/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"
#include "wire/tls_material.h"

namespace stoker {
namespace {

// As they stand in a hello.
constexpr unsigned char kH2[] = {2, 'h', '2'};
constexpr unsigned char kHttp1[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

bool SpeaksH2(const SSL* ssl) { return SSL_get_app_data(ssl) == kH2; }

const char* Name(TlsFailure reason) {
  switch (reason) {
    case TlsFailure::kPlainText:
      return "plain_text";
    case TlsFailure::kVersion:
      return "version";
    case TlsFailure::kCipher:
      return "cipher";
    case TlsFailure::kAlpn:
      return "alpn";
    case TlsFailure::kNoCertificate:
      return "no_certificate";
    case TlsFailure::kCertificate:
      return "certificate";
    case TlsFailure::kExpired:
      return "expired";
    case TlsFailure::kName:
      return "name";
    case TlsFailure::kRejected:
      return "rejected";
    case TlsFailure::kClosed:
      return "closed";
    case TlsFailure::kUnfinished:
      return "unfinished";
    case TlsFailure::kOther:
      break;
  }
  return "other";
}

// A client that offers nothing isn't asked by ChooseProtocol.
int CheckHello(SSL* ssl, int* alert, void*) {
  const unsigned char* offered = nullptr;
  size_t size = 0;
  if (SSL_client_hello_get0_ext(
          ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &offered,
          &size) == 1 ||
      !SpeaksH2(ssl)) {
    return SSL_CLIENT_HELLO_SUCCESS;
  }
  *alert = SSL_AD_NO_APPLICATION_PROTOCOL;
  return SSL_CLIENT_HELLO_ERROR;
}

int ChooseProtocol(SSL* ssl, const unsigned char** chosen, unsigned char* size,
                   const unsigned char* offered, unsigned int offered_size,
                   void*) {
  unsigned char* found = nullptr;
  const bool h2 = SpeaksH2(ssl);
  if (SSL_select_next_proto(&found, size, h2 ? kH2 : kHttp1,
                            h2 ? sizeof(kH2) : sizeof(kHttp1), offered,
                            offered_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

// Whether one of its alternative names is allowed.
bool IsAllowed(const X509* certificate,
               const std::vector<std::string>& patterns) {
  for (const AlternativeName& name : AlternativeNames(certificate)) {
    // A host of an address or of an e-mail is no host that was named.
    const bool allowed = std::any_of(
        patterns.begin(), patterns.end(), [&](const std::string& pattern) {
          return (name.is_host || pattern[0] != '*') &&
                 MatchesName(pattern, name.text);
        });
    if (allowed) return true;
  }
  return false;
}

}  // namespace

bool MatchesName(std::string_view pattern, std::string_view name) {
  if (pattern.substr(0, 2) != "*.") {
    return absl::EqualsIgnoreCase(
        absl::string_view(pattern.data(), pattern.size()),
        absl::string_view(name.data(), name.size()));
  }
  const size_t dot = name.find('.');
  if (dot == name.npos || dot == 0) return false;
  return MatchesName(pattern.substr(2), name.substr(dot + 1));
}

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::Open(
    TlsOptions options, MetricRegistry& metrics, Clock& clock) {
  std::unique_ptr<TlsContext> tls(
      new TlsContext(std::move(options), metrics, clock));
  RETURN_IF_ERROR(tls->Load());
  return tls;
}

int TlsContext::Verify(int ok, X509_STORE_CTX* chain) {
  if (ok != 1 || X509_STORE_CTX_get_error_depth(chain) != 0) return ok;
  const auto* ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const auto* tls = static_cast<const TlsContext*>(
      SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  const std::vector<std::string>& patterns = tls->options_.client_names;
  if (patterns.empty() ||
      IsAllowed(X509_STORE_CTX_get_current_cert(chain), patterns)) {
    return 1;
  }
  X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

absl::Status TlsContext::Load() {
  ASSIGN_OR_RETURN(TlsMaterial material,
                   LoadTlsMaterial(options_, clock_.WallNow()));
  SSL_CTX* const context = material.context.get();
  SSL_CTX_set_app_data(context, this);
  SSL_CTX_set_client_hello_cb(context, CheckHello, nullptr);
  SSL_CTX_set_alpn_select_cb(context, ChooseProtocol, nullptr);
  if (!options_.client_ca.empty()) {
    SSL_CTX_set_verify(context,
                       SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                       &TlsContext::Verify);
  }
  for (const auto line :
       absl::StrSplit(material.warnings, '\n', absl::SkipEmpty())) {
    log::Warn("TLS: {}", std::string(line));
  }
  metrics_.Gauge(metric::kTlsCertificateExpiry)
      .Set(static_cast<double>(absl::ToUnixSeconds(material.expires)));
  log::Info("TLS: certificate {}, valid until {}", options_.certificate,
            absl::FormatTime(material.expires, absl::UTCTimeZone()));
  absl::MutexLock lock(&mu_);
  context_ = std::move(material.context);
  return absl::OkStatus();
}

void TlsContext::Look() {
  const std::optional<absl::Status> loaded =
      files_.Look([this] { return Load(); });
  if (!loaded.has_value()) return;
  metrics_
      .Counter(metric::kTlsReloads,
               {{"outcome", loaded->ok() ? "ok" : "failed"}})
      .Add();
  if (!loaded->ok()) {
    log::Error("TLS: the certificate of before stays in use: {}",
               std::string(loaded->message()));
  }
}

SSL* TlsContext::NewConnection(TlsProtocol protocol) {
  SSL* ssl = nullptr;
  {
    absl::MutexLock lock(&mu_);
    ssl = SSL_new(context_.get());
  }
  if (ssl != nullptr && protocol == TlsProtocol::kH2) {
    SSL_set_app_data(ssl, const_cast<unsigned char*>(kH2));
  }
  return ssl;
}

void TlsContext::OnFailure(TlsFailure reason, const std::string& peer,
                           const std::string& detail) {
  metrics_.Counter(metric::kTlsFailures, {{"reason", Name(reason)}}).Add();
  // Probes of ports come and go.
  if (reason == TlsFailure::kClosed) return;
  if (!lines_[static_cast<size_t>(reason)].IsDue(clock_.Now())) return;
  log::Warn(
      "TLS handshake of {} failed, {}: {}; stoker_tls_handshakes_failed_total "
      "counts them",
      peer.empty() ? "a client" : peer, Name(reason), detail);
}

}  // namespace stoker
