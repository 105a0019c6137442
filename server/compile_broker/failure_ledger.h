// Which keys have failed, how often, and which are not worth another try.
// Private to this room. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "absl/status/status.h"
#include "kernel_cache/artifact_key.h"

namespace stoker {

class FailureLedger {
 public:
  // A key is parked at its second failure.
  static constexpr int kMaxFailures = 2;

  // Counts a failure that is the key's own; a refusal (FAILED_PRECONDITION)
  // parks at once, since the answer will not change. Returns whether the key is
  // parked now.
  bool Record(const ArtifactKey& key, const absl::Status& failure);
  void Forget(const ArtifactKey& key);

  // The stored reason, when the key is parked. Same code as the last failure.
  std::optional<absl::Status> Parked(const ArtifactKey& key) const;
  size_t parked() const;

 private:
  struct Failures {
    int count = 0;
    bool parked = false;
    absl::Status last;
  };
  std::map<ArtifactKey, Failures> failures_;
};

}  // namespace stoker
