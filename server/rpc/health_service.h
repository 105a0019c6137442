// grpc.health.v1: answers Check from the state of the moment, and tells
// watchers of changes when it is told to look again. Knows names and booleans,
// not models.
//
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "health.pb.h"
#include "rpc/admission.h"
#include "rpc/method_table.h"

namespace stoker {

class HealthWatch;

class HealthService {
 public:
  // Whether a service serves; nullopt for an unknown name. Called on the calls'
  // loops and on the threads that call Update; must not block.
  using Lookup = std::function<std::optional<bool>(const std::string& service)>;

  // `admission`, which outlives it, gives the memory of watches; null: nothing
  // bounds them.
  explicit HealthService(Lookup lookup, Admission* admission = nullptr);

  // The methods refer to this object, which outlives their calls.
  void AddMethods(MethodTable& methods);

  // Looks again for every watcher.
  void Update() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  friend class HealthWatch;

  absl::Status Check(const grpc::health::v1::HealthCheckRequest& request,
                     grpc::health::v1::HealthCheckResponse& response) const;

  void Add(HealthWatch& watch, std::weak_ptr<Call> call)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Remove(HealthWatch& watch) ABSL_LOCKS_EXCLUDED(mu_);

  const Lookup lookup_;
  Admission* const admission_;
  absl::Mutex mu_;
  // A watch lives as long as its call.
  absl::flat_hash_map<HealthWatch*, std::weak_ptr<Call>> watches_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
