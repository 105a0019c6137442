#include "models/published_versions.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/status_macros.h"
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

// The version whose turn it is; 0: no alias that serves has a percentage.
int64_t ShareOf(const VersionAliases::ByName& aliases,
                const std::map<int64_t, PublishedVersion>& serving,
                std::optional<uint32_t> turn) {
  int64_t largest = 0;
  int most = 0;
  int total = 0;
  for (const auto& [name, alias] : aliases) {
    if (!serving.contains(alias.version)) continue;
    total += alias.percent;
    if (alias.percent <= most) continue;
    most = alias.percent;
    largest = alias.version;
  }
  if (!turn.has_value() || total == 0) return largest;
  // Each of 0 to 99 once in a hundred turns, those of one alias far apart.
  constexpr uint32_t kHundred = 100;
  constexpr uint32_t kStep = 61;
  const uint32_t place = *turn % kHundred * kStep % kHundred;
  int left = static_cast<int>(place) * total / static_cast<int>(kHundred);
  for (const auto& [name, alias] : aliases) {
    if (!serving.contains(alias.version)) continue;
    if (left < alias.percent) return alias.version;
    left -= alias.percent;
  }
  return largest;
}

}  // namespace

bool PublishedVersions::Publish(Serving serving, std::vector<Line> index,
                                Aliases aliases,
                                std::vector<std::string> models, bool ready) {
  // What was published before goes out with the arguments, without the lock.
  absl::MutexLock lock(&mu_);
  const bool became_ready = ready && !ready_;
  ready_ = ready && !closed_;
  serving_.swap(serving);
  index_.swap(index);
  models_.swap(models);
  aliases_.swap(aliases);
  for (auto turn = turns_.begin(); turn != turns_.end();) {
    turn =
        aliases_.contains(turn->first) ? std::next(turn) : turns_.erase(turn);
  }
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

absl::StatusOr<int64_t> PublishedVersions::NumberLocked(
    std::string_view model, const WantedVersion& wanted,
    std::optional<uint32_t> turn) const {
  if (wanted.number != 0) return wanted.number;
  const auto aliases = aliases_.find(model);
  if (!wanted.alias.empty()) {
    if (aliases != aliases_.end()) {
      const auto named = aliases->second.find(wanted.alias);
      if (named != aliases->second.end()) return named->second.version;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "failed to get model version from specified version string '",
        Absl(wanted.alias),
        "': version should be an integral value > 0, or an alias of the "
        "model's"));
  }
  const auto serving = serving_.find(model);
  if (aliases == aliases_.end() || serving == serving_.end()) return 0;
  return ShareOf(aliases->second, serving->second, turn);
}

absl::StatusOr<PublishedVersion> PublishedVersions::AcquireLocked(
    std::string_view model, const WantedVersion& wanted,
    std::optional<uint32_t> turn) const {
  ASSIGN_OR_RETURN(const int64_t number, NumberLocked(model, wanted, turn));
  if (const auto found = serving_.find(model); found != serving_.end()) {
    const auto chosen = number == 0 ? std::prev(found->second.end())
                                    : found->second.find(number);
    if (chosen != found->second.end()) return chosen->second;
  }
  return WhyNot(index_, model, number);
}

absl::StatusOr<PublishedVersion> PublishedVersions::Acquire(
    std::string_view model, const WantedVersion& wanted) const {
  absl::MutexLock lock(&mu_);
  return AcquireLocked(model, wanted, std::nullopt);
}

absl::StatusOr<PublishedVersion> PublishedVersions::AcquireForRun(
    std::string_view model, const WantedVersion& wanted) {
  absl::MutexLock lock(&mu_);
  const bool any = wanted.number == 0 && wanted.alias.empty();
  if (!any || aliases_.find(model) == aliases_.end()) {
    return AcquireLocked(model, wanted, std::nullopt);
  }
  auto turn = turns_.find(model);
  if (turn == turns_.end()) turn = turns_.emplace(model, 0).first;
  return AcquireLocked(model, wanted, turn->second++);
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
