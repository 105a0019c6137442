// A gRPC server whose calls go to the handlers of a table of methods.
//
// Thread-safe once started.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "rpc/call_loop.h"
#include "rpc/method_table.h"

namespace stoker {

struct CallServerOptions {
  std::string address;  // "host:port"; port 0: any
  int loops = 1;        // threads
  int max_message_bytes = INT32_MAX;
  // How long a client may keep the server waiting with a message begun or an
  // answer half taken.
  absl::Duration stall_limit = absl::Seconds(60);
  // Called for each call that ends for that reason; on its loop.
  std::function<void()> on_stall = [] {};
  // Of messages that are being received, are read from, or wait to be sent.
  // Near it gRPC gives out smaller windows; beyond it, it closes idle
  // connections and ends calls, whosoever they are.
  size_t max_buffer_bytes = size_t{1} << 30;
};

class CallServer {
 public:
  // Binds and starts to answer. INVALID_ARGUMENT: the address is not host:port;
  // UNAVAILABLE: it can't be bound.
  static absl::StatusOr<std::unique_ptr<CallServer>> Start(
      const CallServerOptions& options, MethodTable methods, Clock& clock);
  // Shutdown(now).
  ~CallServer();

  int port() const { return port_; }

  // Refuses new calls, tells open ones, waits for them until `deadline`, then
  // cancels what is left and waits for that. Idempotent.
  void Shutdown(MonotonicTime deadline) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  CallServer(MethodTable methods, Clock& clock)
      : methods_(std::move(methods)), clock_(clock) {}

  const MethodTable methods_;
  Clock& clock_;
  grpc::AsyncGenericService service_;
  std::vector<std::unique_ptr<CallLoop>> loops_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;

  absl::Mutex mu_;  // held while shutting down: one does, the others wait
  bool is_shut_down_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace stoker
