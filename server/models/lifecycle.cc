#include "models/lifecycle.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/heap_trimmer.h"
#include "base/log.h"
#include "metrics/catalog.h"
#include "models/auto_buckets.h"
#include "models/load_backoff.h"
#include "models/model_version.h"
#include "models/version_labels.h"

namespace stoker {
namespace {

// How much of the record of a model's traffic a crash may cost.
constexpr absl::Duration kTrafficInterval = absl::Seconds(30);
// How often the memory of versions is looked at where there is a budget.
constexpr absl::Duration kBudgetInterval = absl::Seconds(1);
// The same while requests wait for room there.
constexpr absl::Duration kRoomInterval = absl::Milliseconds(10);

bool IsOver(VersionState state) {
  return state == VersionState::kUnloaded || state == VersionState::kResting ||
         state == VersionState::kFailed;
}

}  // namespace

Lifecycle::Lifecycle(const LifecycleOptions& options,
                     SnapshotSource& repository, ExecutableLoader& loader,
                     VersionDeps deps, MetricRegistry& metrics,
                     PublishedVersions& published,
                     std::shared_ptr<LifecycleEvents> events)
    : options_(options),
      repository_(repository),
      devices_(deps.cores, loader, options.gpus, options.resources, *deps.clock,
               metrics),
      traffic_(deps.cache == nullptr ? nullptr : &deps.cache->facts()),
      deps_(std::move(deps)),
      metrics_(metrics),
      published_(published),
      events_(std::move(events)),
      stopping_(*deps_.clock, metrics, events_),
      next_poll_(deps_.clock->Now()),
      next_save_(next_poll_ + kTrafficInterval),
      next_rebucket_(options.rebucket_interval > absl::ZeroDuration()
                         ? next_poll_ + options.rebucket_interval
                         : MonotonicTime::InfiniteFuture()) {}

Lifecycle::~Lifecycle() = default;

MonotonicTime Lifecycle::Step() {
  Clock& clock = *deps_.clock;
  if (clock.Now() >= next_save_) {
    traffic_.Save();
    next_save_ = clock.Now() + kTrafficInterval;
  }
  if (clock.Now() >= next_rebucket_) {
    Rebucket();
    next_rebucket_ = clock.Now() + options_.rebucket_interval;
  }
  PollWhenDue();
  EndDrains();
  RetryLoads();
  KeepBudget();
  Reconcile();
  SettlePipelines();
  Forget();
  Publish();
  SettleChanges();
  MonotonicTime next =
      std::min({next_poll_, next_save_, next_rebucket_, EndExpired()});
  if (options_.memory_budget > 0) {
    // Versions take more with their runs.
    next = std::min(next, clock.Now() + kBudgetInterval);
  }
  for (const auto& managed : versions_) {
    if (managed->state == VersionState::kDraining) {
      next = std::min(next, managed->drain_until);
    } else if (managed->state == VersionState::kNew && managed->restored) {
      next = std::min(next, std::max(managed->load_after, clock.Now()));
    } else if (managed->awaits_room && managed->resting != nullptr) {
      // The end of others' requests, which makes room, is no event.
      next = std::min(next, clock.Now() + kRoomInterval);
    } else if (managed->wanted) {
      next = std::min(next, managed->retry_at);
    }
  }
  return next;
}

void Lifecycle::PollWhenDue() {
  if (deps_.clock->Now() < next_poll_) return;
  Poll();
  next_poll_ = options_.poll_interval > absl::ZeroDuration()
                   ? deps_.clock->Now() + options_.poll_interval
                   : MonotonicTime::InfiniteFuture();
}

void Lifecycle::Poll() {
  absl::StatusOr<RepositorySnapshot> snapshot =
      options_.explicit_control ? PollChosen() : repository_.Poll();
  metrics_
      .Counter(metric::kRepositoryPolls,
               {{"outcome", snapshot.ok() ? "ok" : "error"}})
      .Add();
  if (!snapshot.ok()) {
    // What is served stays served: an unreadable folder is no wish to unload.
    log::Error("repository {}: {}", repository_.root(),
               Std(snapshot.status().message()));
    return;
  }
  polled_ = true;
  if (snapshot->empty() && !options_.explicit_control) {
    log::Warn("repository {} holds no model", repository_.root());
  }
  Follow(*snapshot, /*model=*/"", /*retry=*/false);
  if (options_.explicit_control) FollowSteps(*snapshot);
}

void Lifecycle::Follow(const RepositorySnapshot& snapshot,
                       std::string_view model, bool retry) {
  for (auto& managed : versions_) {
    if (model.empty() || managed->model == model) managed->wanted = false;
  }
  for (const DesiredVersion& desired : snapshot) {
    const std::shared_ptr<const ModelSpec> spec =
        desired.spec.ok() ? *desired.spec : nullptr;
    const std::string error(desired.spec.status().message());
    const auto known = std::find_if(
        versions_.begin(), versions_.end(), [&](const auto& managed) {
          // One that drains is on its way out, whoever wants it back.
          const bool rests = !managed->rests.empty();
          return !managed->replaced &&
                 (managed->state != VersionState::kDraining || rests) &&
                 !(retry && spec != nullptr &&
                   managed->state == VersionState::kFailed) &&
                 managed->model == desired.model &&
                 managed->version == desired.version && managed->spec == spec &&
                 (spec != nullptr || managed->reason == error);
        });
    if (known != versions_.end()) {
      (*known)->wanted = true;
      (*known)->wake |= retry && GoesToRest(**known);
      continue;
    }
    const std::shared_ptr<Managed> managed =
        NewManaged(desired.model, desired.version);
    managed->spec = spec;
    if (spec == nullptr) Transition(*managed, VersionState::kFailed, error);
    versions_.push_back(managed);
  }
  FollowAliases(snapshot, model);
}

std::shared_ptr<Lifecycle::Managed> Lifecycle::NewManaged(
    const std::string& model, int64_t version) const {
  auto managed = std::make_shared<Managed>();
  managed->model = model;
  managed->version = version;
  managed->series = std::make_shared<MetricScope>(
      metrics_, Labels{{"model", model}, {"version", absl::StrCat(version)}});
  return managed;
}

std::vector<VersionSnapshot> Lifecycle::Snapshots() const {
  std::vector<VersionSnapshot> snapshots;
  for (const auto& managed : versions_) {
    const bool rests =
        managed->state == VersionState::kResting && managed->wanted;
    snapshots.push_back(
        {.model = managed->model,
         .version = managed->version,
         .state = rests ? VersionState::kServing  // to clients
                        : managed->state,
         .wanted =
             managed->wanted ||
             (managed->state == VersionState::kServing && HasAlias(*managed)),
         .replaces = managed->spec != nullptr &&
                     managed->spec->update == Update::kReplace,
         .restored = managed->comes_back(),
         .held_back =
             deps_.clock->Now() < managed->load_after || managed->awaits_room,
         .holds_memory = managed->running != nullptr});
  }
  for (const auto& [model, version] : leaving_) {
    if (version.expired()) continue;
    snapshots.push_back({.model = model,
                         .state = VersionState::kUnloaded,
                         .wanted = false,
                         .holds_memory = true});
  }
  return snapshots;
}

void Lifecycle::Reconcile() {
  while (const std::optional<Action> action = NextAction(Snapshots())) {
    const std::shared_ptr<Managed>& managed =
        versions_[static_cast<size_t>(action->index)];
    if (action->kind == Action::Kind::kLoad) {
      Load(managed);
    } else if (managed->state == VersionState::kServing) {
      if (MakeRoom(*managed)) BeginDrain(*managed);
    } else {
      HandOn(*managed);
      Unload(*managed);
    }
  }
}

void Lifecycle::Forget() {
  const auto gone = std::stable_partition(
      versions_.begin(), versions_.end(), [](const auto& managed) {
        return managed->wanted || !IsOver(managed->state);
      });
  for (auto it = gone; it != versions_.end(); ++it) {
    FailResting(**it, "it was unloaded or replaced meanwhile");
  }
  versions_.erase(gone, versions_.end());
  stopping_.Reap();
  const auto gone_for_good = std::erase_if(
      leaving_, [](const auto& known) { return known.second.expired(); });
  // Else the heap keeps for a while what the next load is given as free.
  if (gone_for_good > 0 && options_.memory_budget > 0) HeapTrimmer::TrimNow();
}

void Lifecycle::Rebucket() {
  if (deps_.cache == nullptr) return;
  std::vector<std::shared_ptr<Managed>> successors;
  for (const auto& managed : versions_) {
    if (!managed->wanted || managed->state != VersionState::kServing ||
        !managed->spec->compile.enabled ||
        // Would have to be stopped for it.
        managed->spec->update == Update::kReplace ||
        !managed->running->ProgressText().empty()) {
      continue;
    }
    std::shared_ptr<const ModelSpec> replacement = BetterBuckets(*managed);
    if (replacement == nullptr) continue;
    managed->wanted = false;
    managed->replaced = true;
    const std::shared_ptr<Managed> successor =
        NewManaged(managed->model, managed->version);
    successor->spec = managed->spec;
    successor->replacement = std::move(replacement);
    successors.push_back(successor);
  }
  versions_.insert(versions_.end(), successors.begin(), successors.end());
}

void Lifecycle::RetryLoads() {
  std::vector<std::shared_ptr<Managed>> successors;
  for (const auto& managed : versions_) {
    if (!managed->wanted) continue;
    if (managed->state == VersionState::kResting
            ? IsAskedFor(*managed)
            : deps_.clock->Now() >= managed->retry_at) {
      successors.push_back(Successor(*managed));
    }
  }
  versions_.insert(versions_.end(), successors.begin(), successors.end());
}

std::shared_ptr<Lifecycle::Managed> Lifecycle::Successor(
    Managed& managed) const {
  managed.wanted = false;
  managed.replaced = true;
  std::shared_ptr<Managed> successor =
      NewManaged(managed.model, managed.version);
  successor->spec = managed.spec;
  successor->replacement = managed.replacement;
  successor->failed_loads = managed.failed_loads;
  successor->host_bytes = managed.host_bytes;
  successor->rests = managed.rests;
  successor->resting = std::exchange(managed.resting, nullptr);
  return successor;
}

std::shared_ptr<const ModelSpec> Lifecycle::BetterBuckets(
    const Managed& managed) {
  std::shared_ptr<const ModelSpec> better =
      WithBetterBuckets(*managed.spec, deps_, managed.running->toolchain(),
                        *traffic_.Of(*managed.spec));
  if (better == nullptr && managed.running->warmup().MorePaysBack()) {
    better = std::make_shared<ModelSpec>(managed.running->spec());
  }
  return better;
}

void Lifecycle::Load(const std::shared_ptr<Managed>& managed) {
  if (managed->spec->pipeline != nullptr) return LoadPipeline(managed);
  Transition(*managed, VersionState::kLoading);
  absl::StatusOr<Placement> placement = devices_.Find(*managed->spec);
  if (!placement.ok()) {
    Transition(*managed, VersionState::kFailed,
               std::string(placement.status().message()));
    FailResting(*managed, Std(placement.status().message()));
    Restore(*managed);
    return;
  }
  VersionDeps its = deps_;
  its.placement = *std::move(placement);
  its.toolchain.gpu = its.placement.gpu;
  its.metrics = managed->series;
  if (managed->resting != nullptr) {
    its.stats = managed->resting->shared_stats();
    managed->request_series = managed->resting->series();
  } else {
    managed->request_series =
        std::make_shared<MetricScope>(metrics_, VersionLabels(*managed->spec));
  }
  its.request_metrics = managed->request_series;
  its.traffic = traffic_.Of(*managed->spec);
  its.samples = traffic_.SamplesOf(*managed->spec);
  managed->running = std::shared_ptr<ModelVersion>(
      new ModelVersion(managed->replacement != nullptr
                           ? managed->replacement
                           : WithChosenBuckets(managed->spec, deps_,
                                               its.toolchain, *its.traffic),
                       its),
      // Somebody may wait for its memory.
      [events = events_](ModelVersion* version) {
        delete version;
        events->Post([] {});
      });
  // Events may come after the version was let go, hence the weak pointer.
  managed->loader =
      Thread(absl::StrCat("load-", managed->model),
             [this, events = events_, weak = std::weak_ptr<Managed>(managed),
              version = managed->running.get()] {
               const absl::Status loaded = version->Load();
               events->Post([this, weak, loaded] {
                 if (const auto known = weak.lock()) Loaded(*known, loaded);
               });
               if (!loaded.ok()) return;
               version->warmup().Run();
               events->Post([this, weak] {
                 if (const auto known = weak.lock()) WarmedUp(*known);
               });
               version->warmup().Improve();
             });
}

void Lifecycle::Loaded(Managed& managed, const absl::Status& status) {
  if (managed.state != VersionState::kLoading) return;  // unloaded meanwhile
  if (!status.ok()) {
    std::string reason(status.message());
    bool found_room = false;
    if (!managed.stopped_for_it.empty()) {
      managed.may_pass = MayPass(status);
      absl::StrAppend(&reason, "; what was stopped for it is loaded again");
    } else if ((MayPass(status) || managed.resting != nullptr) &&
               !managed.comes_back()) {
      // What was loaded before fails for something that may pass.
      if (absl::IsResourceExhausted(status) && MakeIdleRest(managed)) {
        managed.failed_loads = 0;
        found_room = true;
      }
      const absl::Duration backoff = LoadBackoff(managed.failed_loads++);
      managed.retry_at = deps_.clock->Now() + backoff;
      absl::StrAppend(&reason, "; tried again in ",
                      absl::FormatDuration(backoff));
    }
    // With room its requests wait for the next try.
    if (!found_room) FailResting(managed, reason);
    Transition(managed, VersionState::kFailed, std::move(reason));
    managed.running->Stop(MonotonicTime::InfinitePast());
    managed.loader.Join();
    LetGo(managed);
    Restore(managed);
    if (managed.comes_back()) RestoreFailed(managed, status);
    return;
  }
  // Of one that comes back it was waited for long ago.
  const bool serve_now = (managed.spec->ready_when == ReadyWhen::kEager &&
                          managed.replacement == nullptr) ||
                         !managed.rests.empty() ||
                         managed.running->ProgressText().empty();
  Transition(managed,
             serve_now ? VersionState::kServing : VersionState::kWarming);
}

void Lifecycle::WarmedUp(Managed& managed) {
  if (managed.state == VersionState::kWarming) {
    Transition(managed, VersionState::kServing);
  }
  if (managed.state == VersionState::kServing) {
    log::Info("{}: warm-up done", managed.spec->Label());
  }
}

void Lifecycle::BeginDrain(Managed& managed) {
  Transition(managed, VersionState::kDraining);
  if (managed.pipeline != nullptr) {
    // Its requests have what they need.
    managed.drain_until = deps_.clock->Now();
    return;
  }
  managed.running->StopWarmup();
  managed.drain_until = deps_.clock->Now() + kReplacedVersionDrain;
  managed.holders = managed.held;
  managed.held.reset();  // what is published holds it until the end of Step
}

void Lifecycle::EndDrains() {
  for (const auto& managed : versions_) {
    if (managed->state != VersionState::kDraining) continue;
    if (managed->holders.expired() ||
        deps_.clock->Now() >= managed->drain_until) {
      Unload(*managed);
    }
  }
}

void Lifecycle::Unload(Managed& managed) {
  if (managed.state == VersionState::kServing) {
    Transition(managed, VersionState::kDraining);
  }
  if (managed.running != nullptr) {
    // Whoever still holds it gets an answer or UNAVAILABLE; the last of them
    // frees the object, whose threads have ended by then.
    const bool stopped =
        stopping_.Stop(managed.running, std::move(managed.loader));
    managed.held.reset();
    managed.holders.reset();  // also keeps what `held` held
    if (stopped) {
      LetGo(managed);
    } else {
      // Nobody waits for memory that may never be free.
      managed.running.reset();
    }
  }
  managed.pipeline.reset();
  const bool rests = managed.state == VersionState::kDraining &&
                     !managed.rests.empty() && managed.wanted;
  // The series about what was loaded end with that.
  if (rests)
    managed.series = NewManaged(managed.model, managed.version)->series;
  Transition(managed, rests ? VersionState::kResting : VersionState::kUnloaded);
}

void Lifecycle::UnloadLast(Managed& managed, MonotonicTime deadline) {
  if (managed.state == VersionState::kServing) {
    Transition(managed, VersionState::kDraining);
  }
  if (managed.running != nullptr) {
    managed.running->Stop(deadline);
    managed.loader.Join();
  }
  Unload(managed);
}

void Lifecycle::StopAll(MonotonicTime deadline) {
  stopped_ = true;
  changes_.EndAll(absl::UnavailableError("Server exiting"));
  published_.Close();
  metrics_.Gauge(metric::kReadyTimestamp).Set(0);
  // All at once, and each is waited for below.
  for (const auto& managed : versions_) {
    if (managed->running != nullptr) managed->running->StopWarmup();
  }
  for (const auto& managed : versions_) {
    if (managed->resting != nullptr) {
      managed->resting->Fail(absl::UnavailableError("Server exiting"));
    }
    if (!IsOver(managed->state)) UnloadLast(*managed, deadline);
  }
  stopping_.Join();
  traffic_.Save();
  Publish();
}

}  // namespace stoker
