// The wire: Open Inference Protocol v2 with Triton's extensions over gRPC and
// over HTTP, gRPC health (Check and Watch) and reflection.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "access/gate.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "metrics/metrics.h"
#include "models/model_manager.h"
#include "telemetry/telemetry.h"
#include "wire/ip_address.h"
#include "wire/limits.h"
#include "wire/tls_context.h"

namespace stoker {

class PassedSockets;

struct RpcServerOptions {
  std::string address = "0.0.0.0:8001";  // port 0: any
  // Of HTTP, likewise; empty: it is not offered.
  std::string http_address;
  // Where addresses of the form "fd:NAME" are found; null: nowhere. Outlives
  // the server.
  PassedSockets* passed = nullptr;
  std::string server_version;
  // What requests that are not answered yet may hold together, of all models,
  // their answers included. A message may be half as large, and INT32_MAX.
  size_t max_request_bytes = size_t{1} << 30;
  // A request for a load may be as large; what is larger than usual holds
  // memory as well.
  size_t max_load_bytes = size_t{1} << 20;
  // Whether clients on this host may have tensors in POSIX shared memory, as
  // many bytes of it as requests may hold.
  bool allow_client_shm = false;
  int loops = 1;          // threads of the transport's
  std::vector<int> cpus;  // of these threads, in turn; empty: any
  // Proxies that connections come from, with a PROXY header; empty: they come
  // from clients.
  std::vector<IpNetwork> proxies;
  // The largest message follows from what is above.
  WireLimits limits;
  // Null: connections are plain text. Outlives the server.
  TlsContext* tls = nullptr;
  // Null: who reaches the ports may do everything. Outlives the server.
  Gate* gate = nullptr;
  // Null: nobody wants to know of single requests. Outlives the server.
  Telemetry* telemetry = nullptr;
};

class RpcServer {
 public:
  // Binds and starts to answer. INVALID_ARGUMENT: the address is not host:port;
  // UNAVAILABLE: it can't be bound.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(
      RpcServerOptions options, ModelManager& manager, Clock& clock,
      MetricRegistry& metrics);
  ~RpcServer();

  int port() const;
  // 0: HTTP is not offered, or over a unix socket.
  int http_port() const;

  // A connection for a client within the process, which needs no certificate.
  // UNAVAILABLE: no descriptors. Not after Shutdown.
  absl::StatusOr<FileDescriptor> Connect();

  // Re-reads readiness from the manager and tells health watchers. Cheap; any
  // thread.
  void UpdateHealth();

  // Tells health watchers that nothing is served any more, refuses new calls,
  // lets running ones finish until `deadline`, then cancels
  // them.
  void Shutdown(MonotonicTime deadline);

 private:
  struct Impl;
  explicit RpcServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
