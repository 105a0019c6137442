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
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "models/version_report.h"

namespace stoker {

class ModelVersion;

class PublishedVersions {
 public:
  // model → version → what serves it
  using Serving =
      std::map<std::string, std::map<int64_t, std::shared_ptr<ModelVersion>>,
               std::less<>>;
  // A line of the index, and what runs for it.
  struct Line {
    VersionStatus status;
    std::shared_ptr<ModelVersion> running;  // may be null
  };

  // `ready`: whether the server is, unless closed. Returns whether it became
  // so.
  // `models`: names of all that could be loaded; empty unless that is asked
  // for.
  bool Publish(Serving serving, std::vector<Line> index,
               std::vector<std::string> models, bool ready)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Not ready any more, whatever is published.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

  bool ready() const ABSL_LOCKS_EXCLUDED(mu_);
  // `version` 0: the newest that serves. NOT_FOUND or UNAVAILABLE in Triton's
  // words.
  absl::StatusOr<std::shared_ptr<ModelVersion>> Acquire(std::string_view model,
                                                        int64_t version) const
      ABSL_LOCKS_EXCLUDED(mu_);
  // The resting version that this would have meant; once until the next
  // publication, nullopt before and for any other.
  std::optional<int64_t> WhichRests(std::string_view model, int64_t version)
      ABSL_LOCKS_EXCLUDED(mu_);
  // With what each is doing now.
  std::vector<Line> Lines() const ABSL_LOCKS_EXCLUDED(mu_);
  // Models of which there is no line.
  std::vector<std::string> Unloaded() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable absl::Mutex mu_;
  bool ready_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  Serving serving_ ABSL_GUARDED_BY(mu_);
  std::vector<Line> index_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> models_ ABSL_GUARDED_BY(mu_);
  std::set<std::pair<std::string, int64_t>> asked_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
