// Lifecycle's part that lets go of versions that nobody asks for, for the
// memory of others: of a GPU, where a load fails without, after torch's cache,
// graphs and eager's copies (runner/spare_memory.h); and of the host
// (memory_budget.cc). Such a version rests: it is unloaded, takes requests all
// the same, and is loaded again for the first (resting_version.h).

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/log.h"
#include "metrics/catalog.h"
#include "models/lifecycle.h"
#include "models/model_version.h"

namespace stoker {

std::vector<Lifecycle::Managed*> Lifecycle::IdleVersions() const {
  // What serves is held here and by what is published: by more while a request
  // is under way.
  constexpr int64_t kHolders = 2;
  std::vector<Managed*> idle;
  for (const auto& managed : versions_) {
    if (!managed->wanted || managed->state != VersionState::kServing ||
        managed->spec->keep_in_memory || managed->held.use_count() > kHolders ||
        (managed->resting != nullptr && managed->resting->any_wait()) ||
        changes_.AwaitsLoad(managed->model) ||
        // What it compiles would be lost.
        !managed->running->ProgressText().empty()) {
      continue;
    }
    idle.push_back(managed.get());
  }
  std::stable_sort(idle.begin(), idle.end(), [](const auto* a, const auto* b) {
    return a->running->last_asked() < b->running->last_asked();
  });
  return idle;
}

std::vector<Lifecycle::Managed*> Lifecycle::IdleOn(
    const DevicePlace& place, const Managed& starved) const {
  const MonotonicTime now = deps_.clock->Now();
  std::vector<Managed*> idle = IdleVersions();
  std::erase_if(idle, [&](const Managed* managed) {
    const auto& places = managed->running->placement().places;
    const bool there = std::any_of(
        places.begin(), places.end(),
        [&](const auto& other) { return other.loader == place.loader; });
    return managed == &starved || !managed->spec->on_gpu() || !there ||
           now - managed->running->last_asked() < options_.idle_after;
  });
  return idle;
}

bool Lifecycle::MakeIdleRest(const Managed& starved) {
  // Of what failed, that is still there which it had: only the rest is wanted.
  const int64_t bytes = starved.spec->weights_bytes;
  std::vector<std::pair<Managed*, const DevicePlace*>> go;
  for (const DevicePlace& place : starved.running->placement().places) {
    const std::vector<Managed*> idle = IdleOn(place, starved);
    int64_t freed = 0;
    for (Managed* const managed : idle) {
      if (place.loader->CouldHold(bytes, freed)) break;
      freed += managed->spec->weights_bytes;
      go.emplace_back(managed, &place);
    }
    if (!place.loader->CouldHold(bytes, freed)) return false;
  }
  for (const auto& [managed, place] : go) {
    // On several GPUs it may have been chosen for each.
    if (managed->rests.empty()) {
      Rest(*managed, place->name, starved.spec->Label());
    }
  }
  return !go.empty();
}

void Lifecycle::Rest(Managed& idle, std::string_view where,
                     std::string_view for_whom) {
  const absl::Duration since = deps_.clock->Now() - idle.running->last_asked();
  log::Info(
      "{}: rests: nobody has asked for it for {}, and its memory on {} is "
      "wanted for {}; a request has it loaded again",
      idle.spec->Label(),
      absl::FormatDuration(absl::Trunc(since, absl::Milliseconds(1))), where,
      for_whom);
  metrics_.Counter(metric::kIdleUnloads, {{"device", std::string(where)}})
      .Add();
  idle.rests =
      absl::StrCat("rests: its memory on ", Absl(where), " was wanted for ",
                   Absl(for_whom), "; a request has it loaded again");
  // With the same buckets, of which there are figures.
  idle.replacement = idle.running->shared_spec();
  idle.host_bytes = idle.running->host_memory().total();
  if (idle.resting == nullptr) {
    idle.resting = std::make_shared<RestingVersion>(
        idle.running->shared_spec(), idle.running->shared_stats(),
        idle.request_series, *deps_.clock,
        [events = events_] { events->Post([] {}); });
  }
  idle.resting->Rest();
  BeginDrain(idle);
}

bool Lifecycle::GoesToRest(const Managed& managed) {
  return !managed.rests.empty() && (managed.state == VersionState::kDraining ||
                                    managed.state == VersionState::kResting);
}

bool Lifecycle::IsAskedFor(const Managed& resting) {
  if (!resting.wake && !resting.resting->any_wait()) return false;
  log::Info("{}: asked for, loaded again", resting.spec->Label());
  return true;
}

void Lifecycle::FailResting(Managed& managed, std::string_view why) {
  managed.rests.clear();
  if (managed.resting == nullptr) return;
  managed.resting->Fail(absl::UnavailableError(
      absl::StrCat("Request for unknown model: '", managed.model, "' version ",
                   managed.version, " is not at ready state: ", Absl(why))));
}

MonotonicTime Lifecycle::EndExpired() const {
  MonotonicTime next = MonotonicTime::InfiniteFuture();
  for (const auto& managed : versions_) {
    if (managed->resting == nullptr) continue;
    next = std::min(next, managed->resting->EndExpired());
  }
  return next;
}

}  // namespace stoker
