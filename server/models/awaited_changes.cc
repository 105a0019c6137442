#include "models/awaited_changes.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"

namespace stoker {
namespace {

bool IsOnItsWay(VersionState state) {
  return state == VersionState::kNew || state == VersionState::kLoading ||
         state == VersionState::kWarming;
}

// What became of a load, in Triton's words and with its code; nullopt while a
// version is on its way.
std::optional<absl::Status> OutcomeOf(
    std::string_view model, absl::Span<const VersionOutcome> versions) {
  std::vector<std::string> failed;
  std::vector<std::string> reasons;
  bool any_serves = false;
  for (const VersionOutcome& version : versions) {
    if (version.model != model || !version.wanted) continue;
    if (IsOnItsWay(version.state)) return std::nullopt;
    if (version.state == VersionState::kServing) {
      any_serves = true;
      continue;
    }
    failed.push_back(absl::StrCat(version.version));
    reasons.push_back(version.version == 0
                          ? std::string(version.reason)
                          : absl::StrCat("version ", version.version, ": ",
                                         Absl(version.reason)));
  }
  if (failed.empty()) return absl::OkStatus();
  const std::string which =
      any_serves ? absl::StrCat("versions that are not available: ",
                                absl::StrJoin(failed, ","))
                 : "no version is available";
  return absl::InternalError(absl::StrCat("failed to load '", Absl(model),
                                          "', ", which, ": ",
                                          absl::StrJoin(reasons, "; ")));
}

}  // namespace

void AwaitedChanges::AwaitLoad(std::string model, Source source, Done done) {
  loads_.push_back({std::move(model), source, std::move(done)});
}

absl::Status AwaitedChanges::MayLoad(std::string_view model,
                                     Source source) const {
  const bool free =
      std::none_of(loads_.begin(), loads_.end(), [&](const Load& load) {
        return load.model == model &&
               (source == Source::kRequest || load.source == Source::kRequest);
      });
  if (free) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      "failed to load '", Absl(model),
      "', another load of it is under way, with a configuration or files of "
      "one of the two requests: expected to be asked when that is over"));
}

bool AwaitedChanges::AwaitsLoad(std::string_view model) const {
  return std::any_of(loads_.begin(), loads_.end(),
                     [&](const Load& load) { return load.model == model; });
}

void AwaitedChanges::AwaitPublication(Done done) {
  others_.push_back(std::move(done));
}

void AwaitedChanges::EndLoads(std::string_view model) {
  const auto others = std::stable_partition(
      loads_.begin(), loads_.end(),
      [&](const Load& load) { return load.model != model; });
  const std::vector<Load> ended(std::make_move_iterator(others),
                                std::make_move_iterator(loads_.end()));
  loads_.erase(others, loads_.end());
  for (const Load& load : ended) {
    load.done(absl::AbortedError(absl::StrCat("failed to load '", load.model,
                                              "', it was unloaded meanwhile")));
  }
}

void AwaitedChanges::Settle(absl::Span<const VersionOutcome> versions) {
  std::vector<std::pair<Done, absl::Status>> over;
  for (Done& done : others_) over.emplace_back(std::move(done), absl::Status());
  others_.clear();
  std::vector<Load> waiting;
  for (Load& load : loads_) {
    std::optional<absl::Status> outcome = OutcomeOf(load.model, versions);
    if (outcome.has_value()) {
      over.emplace_back(std::move(load.done), *std::move(outcome));
    } else {
      waiting.push_back(std::move(load));
    }
  }
  loads_ = std::move(waiting);
  for (const auto& [done, status] : over) done(status);
}

void AwaitedChanges::EndAll(const absl::Status& status) {
  const std::vector<Load> loads = std::move(loads_);
  const std::vector<Done> others = std::move(others_);
  loads_.clear();
  others_.clear();
  for (const Load& load : loads) load.done(status);
  for (const Done& done : others) done(status);
}

}  // namespace stoker
