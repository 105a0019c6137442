// Where the wish for versions comes from: model_repository.h reads it from a
// folder, tests make it up.
//
// Not thread-safe: called from the lifecycle thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "repository/model_spec.h"

namespace stoker {

struct DesiredVersion {
  std::string model;
  int64_t version =
      0;  // 0 when not even the version is known (a bad model.yaml)
  // INVALID_ARGUMENT with file, line, field, what was found and what was
  // expected.
  absl::StatusOr<std::shared_ptr<const ModelSpec>> spec =
      absl::UnknownError("");
};

// Sorted by model, then version. A version that is not in it is not wanted.
using RepositorySnapshot = std::vector<DesiredVersion>;

class SnapshotSource {
 public:
  virtual ~SnapshotSource() = default;

  // Unchanged versions keep their ModelSpec object, so that callers can compare
  // pointers. An error: nothing is known, which is no wish to unload.
  virtual absl::StatusOr<RepositorySnapshot> Poll() = 0;
  // The same of one model; empty when there is none of that name.
  virtual absl::StatusOr<RepositorySnapshot> PollModel(
      const std::string& model) = 0;
  // Of all models that there are, without a look into them; sorted.
  virtual absl::StatusOr<std::vector<std::string>> ModelNames() = 0;
  // For the log.
  virtual const std::string& root() const = 0;
};

}  // namespace stoker
