#include "models/published_versions.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "models/model_version.h"

namespace stoker {
namespace {

// Triton's codes and leading words for a model that can't be had.
absl::Status WhyNot(const std::vector<PublishedVersions::Line>& index,
                    std::string_view model, int64_t version) {
  const std::string who =
      absl::StrCat("Request for unknown model: '", Absl(model), "' ");
  bool known = false;
  const VersionStatus* told = nullptr;
  for (const auto& [line, running] : index) {
    if (line.model != model) continue;
    known = true;
    // Of what will not come back nothing is said.
    const bool gone =
        line.state == VersionState::kUnloaded && line.reason.empty();
    if (gone || (version != 0 && line.version != version)) continue;
    // What comes is of more interest than what failed.
    if (told == nullptr || told->state == VersionState::kFailed) told = &line;
  }
  if (told != nullptr) {
    return absl::UnavailableError(
        absl::StrCat(who, "version ", told->version, " is not at ready state",
                     told->reason.empty() ? "" : ": ", told->reason));
  }
  if (!known) return absl::NotFoundError(absl::StrCat(who, "is not found"));
  if (version == 0) {
    return absl::NotFoundError(absl::StrCat(who, "has no available versions"));
  }
  return absl::NotFoundError(
      absl::StrCat(who, "version ", version, " is not found"));
}

}  // namespace

bool PublishedVersions::Publish(Serving serving, std::vector<Line> index,
                                std::vector<std::string> models, bool ready) {
  // What was published before goes out with the arguments, without the lock.
  absl::MutexLock lock(&mu_);
  const bool became_ready = ready && !ready_;
  ready_ = ready && !closed_;
  serving_.swap(serving);
  index_.swap(index);
  models_.swap(models);
  asked_.clear();
  return became_ready;
}

void PublishedVersions::Close() {
  absl::MutexLock lock(&mu_);
  closed_ = true;
  ready_ = false;
}

bool PublishedVersions::ready() const {
  absl::MutexLock lock(&mu_);
  return ready_;
}

absl::StatusOr<std::shared_ptr<ModelVersion>> PublishedVersions::Acquire(
    std::string_view model, int64_t version) const {
  absl::MutexLock lock(&mu_);
  if (const auto found = serving_.find(model); found != serving_.end()) {
    const auto chosen = version == 0 ? std::prev(found->second.end())
                                     : found->second.find(version);
    if (chosen != found->second.end()) return chosen->second;
  }
  return WhyNot(index_, model, version);
}

std::optional<int64_t> PublishedVersions::WhichRests(std::string_view model,
                                                     int64_t version) {
  absl::MutexLock lock(&mu_);
  std::optional<int64_t> found;
  for (const auto& [line, running] : index_) {
    if (!line.rests || line.model != model) continue;
    if (version != 0 && line.version != version) continue;
    if (!found.has_value() || *found < line.version) found = line.version;
  }
  if (!found.has_value()) return std::nullopt;
  const bool first = asked_.emplace(std::string(model), *found).second;
  return first ? found : std::nullopt;
}

std::vector<std::string> PublishedVersions::Unloaded() const {
  std::vector<std::string> unloaded;
  absl::MutexLock lock(&mu_);
  for (const std::string& model : models_) {
    const bool known = std::any_of(
        index_.begin(), index_.end(),
        [&](const Line& line) { return line.status.model == model; });
    if (!known) unloaded.push_back(model);
  }
  return unloaded;
}

std::vector<PublishedVersions::Line> PublishedVersions::Lines() const {
  std::vector<Line> lines;
  {
    absl::MutexLock lock(&mu_);
    lines = index_;
  }
  for (auto& [line, running] : lines) {
    if (running == nullptr) continue;
    const std::string progress = running->ProgressText();
    if (progress.empty()) continue;
    line.reason = absl::StrCat(line.reason, line.reason.empty() ? "" : "; ",
                               "warming up: ", progress);
  }
  return lines;
}

}  // namespace stoker
