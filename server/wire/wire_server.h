// A gRPC server over HTTP/2: an address, its loops, and who makes a call's
// handler; and what else these loops serve, over HTTP/1.1. Knows no methods and
// no messages.
//
// Thread-safe once started.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "metrics/metrics.h"
#include "wire/call.h"
#include "wire/http_call.h"
#include "wire/ip_address.h"
#include "wire/limits.h"
#include "wire/peer_connection.h"

namespace stoker {

class Listener;
class PassedSockets;
class Peers;
class TlsContext;
class WireLoop;
class WireMetrics;

struct WireOptions {
  std::string name = "rpc";  // of its threads
  // "host:port", port 0: any; "unix:PATH"; "fd:NAME"; empty: gRPC is not
  // spoken.
  std::string address;
  // Where "fd:NAME" is found, also of ListenHttp; null: nowhere. Outlives the
  // server.
  PassedSockets* passed = nullptr;
  int loops = 1;  // threads
  // Of these threads, in turn; empty: they run anywhere.
  std::vector<int> cpus;
  // Null: connections are plain text. Outlives the server.
  TlsContext* tls = nullptr;
  // Not empty: a connection to an address of IP, also of ListenHttp, has to
  // come from one of these, and begins with a PROXY header
  // (wire/proxy_header.h), whose address is the peer's from then on.
  std::vector<IpNetwork> proxies;
  WireLimits limits;
  // Open connections are in stoker_connections.
  bool counts_open = true;
  // Called for each call that ends because its client doesn't send or take what
  // is due; on its loop.
  std::function<void()> on_stall = [] {};
};

// Another address of such a server, where HTTP/1.1 is spoken.
struct HttpOptions {
  std::string name;     // for people: "HTTP"
  std::string address;  // as above
  TlsContext* tls = nullptr;
  MakeHttpHandler make_handler;
};

class WireServer {
 public:
  // Binds and starts to answer. INVALID_ARGUMENT: that is no address;
  // UNAVAILABLE: it can't be bound. What is passed by reference outlives it.
  static absl::StatusOr<std::unique_ptr<WireServer>> Start(
      const WireOptions& options, MakeHandler make_handler,
      MetricRegistry& metrics, Clock& clock);
  // Shutdown(now).
  ~WireServer();

  // 0 of a unix socket.
  int port() const { return port_; }

  // Serves another address with the same loops: their limits hold for both
  // together. Its port, 0 of a unix socket; as Start. Before Shutdown.
  absl::StatusOr<int> ListenHttp(const HttpOptions& options)
      ABSL_LOCKS_EXCLUDED(mu_);

  // A connection from within the process, without TLS and past the limits; the
  // client's end, which doesn't block. UNAVAILABLE: no descriptors. Not after
  // Shutdown.
  absl::StatusOr<FileDescriptor> Connect();

  // Takes no more connections, tells open calls, waits for them until
  // `deadline`, then cancels what is left and waits for that. Idempotent.
  void Shutdown(MonotonicTime deadline) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  WireServer(const WireOptions& options, MakeHandler make_handler,
             MetricRegistry& metrics, Clock& clock);
  void StartLoops();
  void AddListener(std::unique_ptr<Listener> listener) ABSL_LOCKS_EXCLUDED(mu_);

  const WireOptions options_;
  const MakeHandler make_handler_;
  Clock& clock_;
  const std::unique_ptr<WireMetrics> metrics_;
  const std::unique_ptr<Peers> peers_;
  const MakeConnection make_connection_;  // of gRPC
  std::vector<std::unique_ptr<WireLoop>> loops_;
  int port_ = 0;

  absl::Mutex mu_;  // held while shutting down: one does, the others wait
  std::vector<std::unique_ptr<Listener>> listeners_ ABSL_GUARDED_BY(mu_);
  bool is_shut_down_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace stoker
