// What requests see of the models: which versions serve, and what the others
// are doing. The lifecycle thread replaces it as a whole; a request reads it
// once, and holds what it found.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "models/version_aliases.h"
#include "models/version_report.h"
#include "models/wanted_version.h"

namespace stoker {

class ModelVersion;
class PipelineVersion;
class RestingVersion;

// A version that takes requests: one of the three.
struct PublishedVersion {
  std::shared_ptr<ModelVersion> running;
  std::shared_ptr<RestingVersion> resting;  // in its stead
  std::shared_ptr<const PipelineVersion> pipeline;
  // Of what doesn't rest.
  ModelVersion& operator*() const { return *running; }
  ModelVersion* operator->() const { return running.get(); }
  friend bool operator==(const PublishedVersion&,
                         const PublishedVersion&) = default;
};

class PublishedVersions {
 public:
  // model → version → what serves it
  using Serving =
      std::map<std::string, std::map<int64_t, PublishedVersion>, std::less<>>;
  // A line of the index, and what runs for it.
  struct Line {
    VersionStatus status;
    std::shared_ptr<ModelVersion> running;  // may be null
  };

  // By model.
  using Aliases = std::map<std::string, VersionAliases::ByName, std::less<>>;

  // `ready`: whether the server is, unless closed. Returns whether it became
  // so.
  // `models`: names of all that could be loaded; empty unless that is asked
  // for.
  bool Publish(Serving serving, std::vector<Line> index, Aliases aliases,
               std::vector<std::string> models, bool ready)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Not ready any more, whatever is published.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

  bool ready() const ABSL_LOCKS_EXCLUDED(mu_);
  // Of any, the one with the largest percentage, or the newest. NOT_FOUND or
  // UNAVAILABLE in Triton's words; INVALID_ARGUMENT for an alias that the model
  // hasn't.
  absl::StatusOr<PublishedVersion> Acquire(std::string_view model,
                                           const WantedVersion& wanted) const
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<PublishedVersion> Acquire(std::string_view model,
                                           int64_t number) const {
    return Acquire(model, WantedVersion{.number = number});
  }
  // The same for a run. Of any, the one whose turn it is: of a hundred requests
  // in a row each alias gets exactly its percentage, where all of them serve,
  // and else what is left is shared in proportion.
  absl::StatusOr<PublishedVersion> AcquireForRun(std::string_view model,
                                                 const WantedVersion& wanted)
      ABSL_LOCKS_EXCLUDED(mu_);
  // With what each is doing now.
  std::vector<Line> Lines() const ABSL_LOCKS_EXCLUDED(mu_);
  // Models of which there is no line.
  std::vector<std::string> Unloaded() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // `turn` unset: of any, the one with the largest percentage. 0: the newest.
  absl::StatusOr<int64_t> NumberLocked(std::string_view model,
                                       const WantedVersion& wanted,
                                       std::optional<uint32_t> turn) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  absl::StatusOr<PublishedVersion> AcquireLocked(
      std::string_view model, const WantedVersion& wanted,
      std::optional<uint32_t> turn) const ABSL_SHARED_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  bool ready_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  Serving serving_ ABSL_GUARDED_BY(mu_);
  std::vector<Line> index_ ABSL_GUARDED_BY(mu_);
  Aliases aliases_ ABSL_GUARDED_BY(mu_);
  // Requests that named no version, of the models with aliases.
  std::map<std::string, uint32_t, std::less<>> turns_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> models_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
