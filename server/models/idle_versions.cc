// Lifecycle's part that takes a GPU's memory from versions that nobody asks
// for: what goes last, after torch's cache, graphs and eager's copies
// (runner/spare_memory.h), and only for a load that fails without. Such a
// version rests: it is unloaded, and loaded again when a request asks for it,
// which is told so.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "metrics/catalog.h"
#include "models/lifecycle.h"
#include "models/model_version.h"

namespace stoker {

std::vector<Lifecycle::Managed*> Lifecycle::IdleOn(
    const DevicePlace& place, const Managed& starved) const {
  const MonotonicTime now = deps_.clock->Now();
  std::vector<Managed*> idle;
  for (const auto& managed : versions_) {
    if (managed.get() == &starved || !managed->wanted ||
        managed->state != VersionState::kServing || !managed->spec->on_gpu() ||
        now - managed->running->last_asked() < options_.idle_after ||
        // What it compiles would be lost.
        !managed->running->ProgressText().empty()) {
      continue;
    }
    const auto& places = managed->running->placement().places;
    const bool there = std::any_of(
        places.begin(), places.end(),
        [&](const auto& other) { return other.loader == place.loader; });
    if (there) idle.push_back(managed.get());
  }
  std::stable_sort(idle.begin(), idle.end(), [](const auto* a, const auto* b) {
    return a->running->last_asked() < b->running->last_asked();
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
    if (managed->rests.empty()) Rest(*managed, *place, starved);
  }
  return !go.empty();
}

void Lifecycle::Rest(Managed& idle, const DevicePlace& place,
                     const Managed& starved) {
  const absl::Duration since = deps_.clock->Now() - idle.running->last_asked();
  log::Warn(
      "{}: unloaded: nobody has asked for it for {}, and its memory on {} is "
      "wanted by {}; a request has it loaded again",
      idle.spec->Label(),
      absl::FormatDuration(absl::Trunc(since, absl::Seconds(1))), place.name,
      starved.spec->Label());
  metrics_.Counter(metric::kGpuIdleUnloads, {{"device", place.name}}).Add();
  idle.rests = absl::StrCat("nobody asked for it, and ", starved.spec->Label(),
                            " wanted its memory on ", place.name,
                            "; a request has it loaded again, try again later");
  BeginDrain(idle);
}

void Lifecycle::Wake(std::string_view model, int64_t version) {
  for (const auto& managed : versions_) {
    if (managed->rests.empty() || !managed->wanted ||
        managed->state != VersionState::kUnloaded || managed->model != model ||
        managed->version != version) {
      continue;
    }
    log::Info("{}: asked for, loaded again", managed->spec->Label());
    managed->retry_at = deps_.clock->Now();  // RetryLoads
  }
}

}  // namespace stoker
