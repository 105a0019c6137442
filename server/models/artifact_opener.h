// Opens cache entries on the device threads and runs them there once, before
// anything serves with them. Says nothing of whether they should serve.
//
// Thread-safe; blocks.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernel_cache/entry_store.h"
#include "models/version_parts.h"
#include "runner/executable.h"

namespace stoker {

class ArtifactOpener {
 public:
  explicit ArtifactOpener(const VersionParts& version) : version_(version) {}

  struct Opened {
    std::vector<std::shared_ptr<Executable>> executables;  // by device thread
    absl::Duration first_run = absl::InfiniteDuration();   // the shortest
  };

  // For each entry, whether it survives a run on this machine, in a child
  // process where that isn't known (models/first_run.h).
  std::vector<absl::Status> TryInChild(
      absl::Span<const CacheEntry> entries) const;

  // `tried`: what TryInChild said of the entry. FAILED_PRECONDITION,
  // RESOURCE_EXHAUSTED and UNAVAILABLE are the host's or its GPU's fault, which
  // another time may have room for it; CANCELLED: the version is stopped;
  // anything else is the artifact's own.
  absl::StatusOr<Opened> Open(const WarmupStep& step, const CacheEntry& entry,
                              const absl::Status& tried) const;

  // Runs each on its device thread; returns the shortest time.
  absl::StatusOr<absl::Duration> RunOnce(
      absl::Span<const std::shared_ptr<Executable>> executables,
      absl::Span<const Tensor> inputs) const;

 private:
  absl::StatusOr<std::vector<std::shared_ptr<Executable>>> OpenOnEachThread(
      const CacheEntry& entry) const;

  const VersionParts version_;
};

}  // namespace stoker
