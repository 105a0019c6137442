// Lifecycle's part that replaces a version in its own memory: `update:
// replace`. What serves is stopped, and what takes its place is loaded when it
// is gone; where that fails, what served is loaded again. Requests meanwhile
// get UNAVAILABLE, and are told why.

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "models/lifecycle.h"
#include "models/load_backoff.h"
#include "models/model_version.h"

namespace stoker {
namespace {

constexpr char kReplaces[] =
    "it takes the place of what served before, which had to be stopped first "
    "(update: replace in model.yaml); this passes, try again later";
constexpr char kStopped[] =
    "it was stopped for what takes its place, which loads when it is gone "
    "(update: replace in model.yaml); this passes, try again later";
constexpr char kRestored[] =
    "it is loaded again, as what was to take its place failed; this passes, "
    "try again later";

}  // namespace

bool Lifecycle::MakeRoom(Managed& managed) {
  const auto waits = [&](const auto& other) {
    return other->wanted && other->model == managed.model &&
           other->state == VersionState::kNew && other->spec != nullptr &&
           other->spec->update == Update::kReplace;
  };
  const auto heir = std::find_if(versions_.begin(), versions_.end(), waits);
  if (heir == versions_.end()) return true;
  // What can't be loaded in any case costs nobody a gap.
  if (const auto place = devices_.Find(*(*heir)->spec); !place.ok()) {
    Transition(**heir, VersionState::kFailed,
               std::string(place.status().message()));
    Restore(**heir);
    return false;
  }
  log::Warn(
      "{}: stopped for version {}, which loads when it is gone (update: "
      "replace); requests for it are refused until that serves",
      managed.spec->Label(), (*heir)->version);
  managed.makes_room = true;
  (*heir)->stopped_for_it.push_back(FormerOf(managed, deps_.clock->Now()));
  return true;
}

void Lifecycle::HandOn(Managed& managed) {
  std::vector<Former> formers = std::exchange(managed.stopped_for_it, {});
  if (managed.restored) {
    formers.push_back(FormerOf(managed, managed.gap_since));
  }
  const auto heir =
      std::find_if(versions_.begin(), versions_.end(), [&](const auto& other) {
        return other->wanted && other->model == managed.model &&
               OnItsWay(other->state);
      });
  if (heir == versions_.end()) return;
  std::move(formers.begin(), formers.end(),
            std::back_inserter((*heir)->stopped_for_it));
}

void Lifecycle::Restore(Managed& failed) {
  for (Former& former : std::exchange(failed.stopped_for_it, {})) {
    log::Warn("{}: version {} is loaded again, as version {} failed",
              failed.model, former.version, failed.version);
    BringBack(failed.model, std::move(former));
  }
}

Lifecycle::Former Lifecycle::FormerOf(const Managed& managed,
                                      MonotonicTime gap_since) {
  return {managed.version, managed.spec, managed.replacement, gap_since};
}

Lifecycle::Managed& Lifecycle::BringBack(const std::string& model,
                                         Former former) {
  const std::shared_ptr<Managed> back = NewManaged(model, former.version);
  back->spec = std::move(former.spec);
  back->replacement = std::move(former.replacement);
  back->gap_since = former.gap_since;
  back->restored = true;
  back->wanted = false;
  versions_.push_back(back);
  return *back;
}

void Lifecycle::RestoreFailed(Managed& restored, const absl::Status& status) {
  if (MayPass(status)) {
    Managed& again =
        BringBack(restored.model, FormerOf(restored, restored.gap_since));
    again.failed_loads = restored.failed_loads + 1;
    again.load_after = deps_.clock->Now() + LoadBackoff(restored.failed_loads);
    return;
  }
  // Nothing is lost any more with another try of what it was stopped for.
  for (const auto& other : versions_) {
    if (other->model == restored.model && other->wanted && other->may_pass) {
      other->retry_at = deps_.clock->Now() + LoadBackoff(other->failed_loads++);
    }
  }
}

void Lifecycle::EndGap(Managed& managed) {
  if (!managed.restored && managed.stopped_for_it.empty()) return;
  MonotonicTime since =
      managed.restored ? managed.gap_since : deps_.clock->Now();
  for (const Former& former : managed.stopped_for_it) {
    since = std::min(since, former.gap_since);
  }
  log::Info("{}: serves after a gap of {}", managed.spec->Label(),
            absl::FormatDuration(deps_.clock->Now() - since));
  managed.stopped_for_it.clear();
}

std::string Lifecycle::GapText(const Managed& managed) {
  if (!managed.rests.empty()) return managed.rests;
  if (managed.makes_room && managed.state == VersionState::kDraining) {
    return kStopped;
  }
  if (!OnItsWay(managed.state)) return "";
  if (managed.restored) return kRestored;
  return managed.stopped_for_it.empty() ? "" : kReplaces;
}

void Lifecycle::AddStopped(std::vector<PublishedVersions::Line>& lines) const {
  for (const auto& managed : versions_) {
    for (const Former& former : managed->stopped_for_it) {
      const bool there =
          std::any_of(lines.begin(), lines.end(), [&](const auto& line) {
            return line.status.model == managed->model &&
                   line.status.version == former.version;
          });
      if (there) continue;
      lines.push_back({{managed->model, former.version, VersionState::kUnloaded,
                        kStopped, false, false},
                       nullptr});
    }
  }
}

void Lifecycle::LetGo(Managed& managed) {
  leaving_.emplace_back(managed.model, managed.running);
  managed.running.reset();
}

}  // namespace stoker
