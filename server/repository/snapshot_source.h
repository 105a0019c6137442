// Where the wish for versions comes from: model_repository.h reads it from a
// folder, tests make it up.
//
// Not thread-safe: called from the lifecycle thread, but for Override.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
  // The version's aliases, each with its percentage of the requests that name
  // no version.
  std::map<std::string, int> aliases;
};

// Whether it can name a version: 'canary'. No number can.
bool IsAlias(std::string_view text);

// Sorted by model, then version. A version that is not in it is not wanted.
using RepositorySnapshot = std::vector<DesiredVersion>;

// What a request for a load says of its model instead of the repository.
struct ModelOverride {
  // Triton's model configuration as JSON, in place of what the model's folder
  // says of how it is served.
  std::optional<std::string> config;
  // In place of the model's folder: contents by names in it, "1/model.pt2".
  // Empty: it holds.
  std::map<std::string, std::string> files;

  bool empty() const { return !config.has_value() && files.empty(); }
  // The aliases.yaml where there is nothing else, so that the rest is the
  // repository's; else null.
  const std::string* aliases_alone() const;
};

// Of the files of all loads that are served or on their way together.
struct OverrideLimits {
  std::string folder;     // in which they are written; empty: the system's
  int64_t max_bytes = 0;  // 0: none are taken
  int max_loads = 0;
};

class SnapshotSource {
 public:
  virtual ~SnapshotSource() = default;

  // Unchanged versions keep their ModelSpec object, so that callers can compare
  // pointers. An error: nothing is known, which is no wish to unload.
  virtual absl::StatusOr<RepositorySnapshot> Poll() = 0;
  // The same of one model; empty when there is none of that name. `aliases`: in
  // place of the text of its aliases.yaml, unless null.
  virtual absl::StatusOr<RepositorySnapshot> PollModel(
      const std::string& model, const std::string* aliases) = 0;
  // Of all models that there are, without a look into them; sorted.
  virtual absl::StatusOr<std::vector<std::string>> ModelNames() = 0;
  // The model with what a request says of it, each time of its own and never
  // empty. INVALID_ARGUMENT, for people: what is wrong with that;
  // RESOURCE_EXHAUSTED: no room for the files; NOT_FOUND: no such model. Any
  // thread, which waits for the disk.
  virtual absl::StatusOr<RepositorySnapshot> Override(
      const std::string& model, const ModelOverride& override) const = 0;
  // For the log.
  virtual const std::string& root() const = 0;
};

}  // namespace stoker
