// grpc.health.v1: answers Check from the state of the moment, and tells
// watchers of changes when it is told to look again. Knows names and booleans,
// not models.
//
// Thread-safe. Callback API: no thread of gRPC's ever waits here.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "health.grpc.pb.h"

namespace stoker {

class HealthWatch;

class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  // Whether a service serves; nullopt for an unknown name. Called on gRPC's
  // threads and on those that call Update; must not block.
  using Lookup = std::function<std::optional<bool>(const std::string& service)>;

  explicit HealthService(Lookup lookup);

  // Looks again for every watcher.
  void Update() ABSL_LOCKS_EXCLUDED(mu_);

  // Ends all watches, each after its newest status, and new ones at once: they
  // would hold up the server's stop.
  void EndWatches() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  grpc::ServerUnaryReactor* Check(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request,
      grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

  void Remove(const HealthWatch* watch) ABSL_LOCKS_EXCLUDED(mu_);

  const Lookup lookup_;
  absl::Mutex mu_;
  absl::flat_hash_map<const HealthWatch*, std::shared_ptr<HealthWatch>> watches_
      ABSL_GUARDED_BY(mu_);
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace stoker
