// The server's side of TLS: its certificate, whom it lets in, and what came of
// that. Files that change are read again; connections that exist go on.
//
// Thread-safe.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/reloaded_files.h"
#include "metrics/metrics.h"
#include "wire/rare_line.h"
#include "wire/tls_failure.h"

struct ssl_ctx_st;
struct ssl_st;
struct x509_store_ctx_st;

namespace stoker {

struct TlsMaterial;

struct TlsOptions {
  std::string certificate;  // PEM: the server's own, then those above it
  std::string key;          // PEM
  // PEM; not empty: clients need a certificate of one of these authorities.
  std::string client_ca;
  // Not empty: and one of its names (DNS, URI or e-mail) is one of these;
  // "*.example.com" stands for one more label, of DNS names only.
  std::vector<std::string> client_names;
  bool only_1_3 = false;  // else 1.2 too
};

// What is spoken over a connection once it is encrypted.
enum class TlsProtocol {
  kH2,     // and the client has to say so
  kHttp1,  // which is also what a client means that says nothing
};

// Whether a name of a certificate is one that `pattern` stands for. Letters of
// either case are the same.
bool MatchesName(std::string_view pattern, std::string_view name);

class TlsContext {
 public:
  // Reads and checks the files: the file and the reason where one is wrong.
  static absl::StatusOr<std::unique_ptr<TlsContext>> Open(
      TlsOptions options, MetricRegistry& metrics, Clock& clock);

  // Reads the files again if one has changed. What is wrong is logged once, and
  // what was right stays in use. Every few seconds; one thread.
  void Look();

  // Whether clients need a certificate.
  bool asks_clients() const { return !options_.client_ca.empty(); }

  // ---- for connections

  // A connection's state that waits for a client's hello; null: no memory. The
  // caller frees it.
  ssl_st* NewConnection(TlsProtocol protocol) ABSL_LOCKS_EXCLUDED(mu_);
  // Counts, and says so at a bounded rate. `peer`: its address.
  void OnFailure(TlsFailure reason, const std::string& peer,
                 const std::string& detail);

 private:
  TlsContext(TlsOptions options, MetricRegistry& metrics, Clock& clock)
      : options_(std::move(options)),
        metrics_(metrics),
        clock_(clock),
        files_({options_.certificate, options_.key, options_.client_ca}) {}

  static int Verify(int ok, x509_store_ctx_st* chain);
  absl::Status Load() ABSL_LOCKS_EXCLUDED(mu_);

  const TlsOptions options_;
  MetricRegistry& metrics_;
  Clock& clock_;
  ReloadedFiles files_;             // of Look
  std::array<RareLine, 16> lines_;  // by reason

  absl::Mutex mu_;
  std::shared_ptr<ssl_ctx_st> context_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
