// Health for who can't ask over gRPC: a kubelet speaks it neither with TLS nor
// with a certificate. The pages ask the health service itself, from within, so
// that they never say anything else, and a loop that is stuck shows here, too.
//
// Thread-safe.
#pragma once

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "rpc/rpc_server.h"
#include "status/page.h"

namespace stoker {

class HealthPages {
 public:
  // /health/liveness, /health/readiness and /health/startup: 200 "serving" or
  // 503 with the reason. This outlives `pages`.
  void AddTo(Pages& pages);

  // From here on the server is asked; before, and once it drains, the process
  // lives and is ready for nothing. Stop has to be called before its Shutdown.
  void Start(RpcServer& server);
  void Stop();

 private:
  Page Ask(const std::string& service);

  absl::Mutex mutex_;
  RpcServer* server_ ABSL_GUARDED_BY(mutex_) = nullptr;  // null: isn't asked
  // What it does then.
  const char* instead_ ABSL_GUARDED_BY(mutex_) = "starting";
};

}  // namespace stoker
