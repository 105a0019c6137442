// Lifecycle's part that changes versions' states, and tells requests, metrics
// and the log of them.

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/log.h"
#include "metrics/catalog.h"
#include "models/lifecycle.h"
#include "models/model_version.h"

namespace stoker {

Gauge Lifecycle::StateGauge(const Managed& managed, VersionState state) const {
  return managed.series->Gauge(
      metric::kModelState, {{"model", managed.model},
                            {"version", absl::StrCat(managed.version)},
                            {"state", std::string(VersionStateName(state))}});
}

bool Lifecycle::SharesState(const Managed& managed) const {
  return std::any_of(versions_.begin(), versions_.end(), [&](const auto& v) {
    return v.get() != &managed && v->model == managed.model &&
           v->version == managed.version && v->state == managed.state;
  });
}

void Lifecycle::Transition(Managed& managed, VersionState to,
                           std::string reason) {
  const absl::Status legal = CheckTransition(managed.state, to);
  if (!legal.ok()) {
    log::Critical("{}:{}: {}", managed.model, managed.version,
                  Std(legal.message()));
    std::abort();
  }
  if (!SharesState(managed)) StateGauge(managed, managed.state).Set(0);
  StateGauge(managed, to).Set(1);
  const std::string text =
      absl::StrCat(managed.model, ":", managed.version, ": ",
                   Absl(VersionStateName(managed.state)), " -> ",
                   Absl(VersionStateName(to)));
  if (to == VersionState::kFailed) {
    log::Error("{}: {}", text, reason);
  } else {
    log::Info("{}", text);
  }
  managed.state = to;
  managed.reason = std::move(reason);
  if (to == VersionState::kServing) {
    EndGap(managed);
    managed.rests.clear();
    managed.failed_loads = 0;
    if (managed.running == nullptr) return;
    managed.held = std::shared_ptr<ModelVersion>(
        managed.running.get(), [running = managed.running, events = events_](
                                   ModelVersion*) { events->Post([] {}); });
  }
}

void Lifecycle::Publish() {
  PublishedVersions::Serving serving;
  std::vector<PublishedVersions::Line> lines;
  const bool was_ready = published_.ready();
  bool settled = polled_;
  bool any_serving = false;
  bool any_wanted = false;
  for (const auto& managed : versions_) {
    const bool serves = managed->state == VersionState::kServing;
    const bool rests = !managed->rests.empty() && managed->wanted;
    if (serves || rests) {
      // A reloaded version comes later in the list and replaces its older self.
      PublishedVersion& published = serving[managed->model][managed->version];
      published = {};
      if (serves) published.running = managed->held;
      if (serves) published.pipeline = managed->pipeline;
      if (rests) published.resting = managed->resting;
    }
    any_serving |= serves || !managed->rests.empty();
    any_wanted |= managed->wanted;
    const std::string gap = GapText(*managed);
    lines.push_back({{managed->model, managed->version, managed->state,
                      gap.empty() ? managed->reason : gap, false, rests},
                     managed->running});
  }
  AddStopped(lines);
  PublishedVersions::Aliases aliases = SettledAliases(serving);
  for (const auto& managed : versions_) {
    // A version that is being made ready to replace another takes no server
    // out of rotation, nor does one that somebody asks a ready server for.
    const bool replaces = was_ready && (options_.explicit_control ||
                                        serving.contains(managed->model));
    const bool given_up =
        (managed->state == VersionState::kFailed && !deps_.require_cache) ||
        managed->resting != nullptr;  // it was ready before
    settled &= !managed->wanted || managed->state == VersionState::kServing ||
               given_up || replaces;
  }
  for (auto& [line, running] : lines) {
    const auto model = serving.find(line.model);
    line.newest =
        model != serving.end() && model->second.rbegin()->first == line.version;
    const auto of_model = aliases.find(line.model);
    if (of_model == aliases.end()) continue;
    for (const auto& [name, alias] : of_model->second) {
      if (alias.version == line.version) line.aliases[name] = alias.percent;
    }
  }
  const bool ready = settled && (any_serving || !any_wanted);
  if (published_.Publish(std::move(serving), std::move(lines),
                         std::move(aliases), names_, ready)) {
    metrics_.Gauge(metric::kReadyTimestamp)
        .Set(absl::ToDoubleSeconds(deps_.clock->WallNow() - absl::UnixEpoch()));
  }
  if (listener_) listener_();
  for (const auto& managed : versions_) {
    if (managed->state == VersionState::kServing &&
        managed->resting != nullptr) {
      managed->resting->Serve(managed->held);
    }
  }
}

}  // namespace stoker
