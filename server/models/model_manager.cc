#include "models/model_manager.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/absl_view.h"
#include "base/thread.h"
#include "metrics/catalog.h"
#include "models/model_version.h"
#include "models/version_policy.h"
#include "planning/bucket_choice.h"
#include "planning/placement.h"
#include "planning/traffic.h"
#include "spdlog/spdlog.h"

namespace stoker {
namespace {

constexpr absl::Duration kReplacedVersionDrain = absl::Seconds(30);
// How much of the record of a model's traffic a crash may cost.
constexpr absl::Duration kTrafficInterval = absl::Seconds(30);

// What requests see. Replaced as a whole, never changed.
struct Published {
  // model → version → what serves it
  std::map<std::string, std::map<int64_t, std::shared_ptr<ModelVersion>>,
           std::less<>>
      models;
};

// A version on its way through its life. Fields are the lifecycle thread's,
// except where a comment says otherwise.
struct Managed {
  std::string model;
  int64_t version = 0;
  std::shared_ptr<const ModelSpec>
      spec;  // null: the repository could not read it
  bool wanted = true;
  bool replaced = false;  // by itself with other buckets
  // What takes the place of itself with other buckets, and serves when warm:
  // the spec with those.
  std::shared_ptr<const ModelSpec> replacement;
  VersionState state = VersionState::kNew;
  std::string reason;
  std::shared_ptr<ModelVersion> running;
  // Its series, which end with it and with who holds `running`.
  std::shared_ptr<MetricScope> series;
  Thread loader;  // loads and warms up; posts what became of them
};

// A line of the index, and what runs for it.
struct Line {
  VersionStatus status;
  std::shared_ptr<ModelVersion> running;  // may be null
};

// Triton's codes and leading words for a model that can't be had.
absl::Status WhyNot(const std::vector<Line>& index, std::string_view model,
                    int64_t version) {
  const std::string who =
      absl::StrCat("Request for unknown model: '", Absl(model), "' ");
  bool known = false;
  for (const auto& [line, running] : index) {
    if (line.model != model) continue;
    known = true;
    const bool gone = line.state == VersionState::kUnloaded;
    if (gone || (version != 0 && line.version != version)) continue;
    return absl::UnavailableError(
        absl::StrCat(who, "version ", line.version, " is not at ready state",
                     line.reason.empty() ? "" : ": ", line.reason));
  }
  if (!known) return absl::NotFoundError(absl::StrCat(who, "is not found"));
  if (version == 0) {
    return absl::NotFoundError(absl::StrCat(who, "has no available versions"));
  }
  return absl::NotFoundError(
      absl::StrCat(who, "version ", version, " is not found"));
}

// The spec with these buckets, which are remembered.
std::shared_ptr<const ModelSpec> TakeBuckets(const ModelSpec& spec,
                                             AutoBuckets chosen,
                                             ModelTraffic& recorded) {
  spdlog::info("{}: buckets: auto: {}", spec.Label(), chosen.why);
  if (chosen.changed) recorded.SetChosen(chosen.buckets);
  auto changed = std::make_shared<ModelSpec>(spec);
  changed->buckets = std::move(chosen.buckets);
  return changed;
}

}  // namespace

ModelHandle::ModelHandle(std::shared_ptr<ModelVersion> version)
    : version_(std::move(version)) {}
const ModelSpec& ModelHandle::spec() const { return version_->spec(); }
VersionStats& ModelHandle::stats() const { return version_->stats(); }
absl::Status ModelHandle::Submit(std::unique_ptr<InferTask>& task) const {
  return version_->Submit(task);
}
void ModelHandle::SweepCancelled() const { version_->SweepCancelled(); }

struct ModelManager::Impl {
  Impl(ModelManagerOptions opts, ModelRepository& repo,
       ExecutableLoader& loader, MetricRegistry& registry,
       VersionDeps version_deps)
      : options(std::move(opts)),
        repository(repo),
        metrics(registry),
        devices(options.cores, loader, options.gpus, *version_deps.clock),
        traffic(version_deps.cache == nullptr ? nullptr
                                              : &version_deps.cache->facts()),
        deps(std::move(version_deps)) {
    deps.server_ready = [this] { return Ready(); };
  }

  // --- lifecycle thread ---
  void Run();
  void Poll();
  void Follow(const RepositorySnapshot& snapshot);
  void Reconcile();
  AutoBuckets ChooseBucketsOf(const ModelSpec& spec, const Toolchain& toolchain,
                              const ModelTraffic& recorded) const;
  std::shared_ptr<const ModelSpec> WithChosenBuckets(
      std::shared_ptr<const ModelSpec> spec, const Toolchain& toolchain,
      ModelTraffic& recorded) const;
  std::shared_ptr<Managed> NewManaged(const std::string& model,
                                      int64_t version) const;
  void Rebucket();
  void Load(const std::shared_ptr<Managed>& managed);
  void Unload(Managed& managed, MonotonicTime deadline);
  void Loaded(Managed& managed, const absl::Status& status);
  void WarmedUp(Managed& managed);
  // 1 for the state that a version is in.
  Gauge StateGauge(const Managed& managed, VersionState state) const;
  void Transition(Managed& managed, VersionState to, std::string reason = "");
  void Publish();
  void StopAll();
  std::vector<VersionSnapshot> Snapshots() const;

  void Post(std::function<void()> event) ABSL_LOCKS_EXCLUDED(mu) {
    absl::MutexLock lock(&mu);
    events.push_back(std::move(event));
  }

  bool Ready() const ABSL_LOCKS_EXCLUDED(mu) {
    absl::MutexLock lock(&mu);
    return ready;
  }

  // With what each is doing now.
  std::vector<Line> Lines() const ABSL_LOCKS_EXCLUDED(mu);

  const ModelManagerOptions options;
  ModelRepository& repository;
  MetricRegistry& metrics;
  DevicePlaces devices;   // the lifecycle thread's own
  TrafficKeeper traffic;  // the lifecycle thread's own
  VersionDeps deps;
  std::function<void()> listener;  // set before Start

  // The lifecycle thread's own.
  std::deque<std::shared_ptr<Managed>> versions;
  bool polled = false;

  mutable absl::Mutex mu;
  std::deque<std::function<void()>> events ABSL_GUARDED_BY(mu);
  bool draining ABSL_GUARDED_BY(mu) = false;
  MonotonicTime drain_deadline ABSL_GUARDED_BY(mu) =
      MonotonicTime::InfiniteFuture();
  bool ready ABSL_GUARDED_BY(mu) = false;
  std::shared_ptr<const Published> published ABSL_GUARDED_BY(mu) =
      std::make_shared<Published>();
  std::vector<Line> index ABSL_GUARDED_BY(mu);

  Thread thread;  // last
};

void ModelManager::Impl::Run() {
  MonotonicTime next_poll = deps.clock->Now();
  MonotonicTime next_save = next_poll + kTrafficInterval;
  const bool rebuckets = options.rebucket_interval > absl::ZeroDuration();
  MonotonicTime next_rebucket = rebuckets
                                    ? next_poll + options.rebucket_interval
                                    : MonotonicTime::InfiniteFuture();
  while (true) {
    std::deque<std::function<void()>> now;
    bool stop = false;
    {
      absl::MutexLock lock(&mu);
      auto awake = [this] {
        mu.AssertReaderHeld();
        return !events.empty() || draining;
      };
      deps.clock->AwaitWithDeadline(
          &mu, absl::Condition(&awake),
          std::min({next_poll, next_save, next_rebucket}));
      now.swap(events);
      stop = draining;
    }
    for (const std::function<void()>& event : now) event();
    if (stop) break;
    if (deps.clock->Now() >= next_save) {
      traffic.Save();
      next_save = deps.clock->Now() + kTrafficInterval;
    }
    if (deps.clock->Now() >= next_rebucket) {
      Rebucket();
      next_rebucket = deps.clock->Now() + options.rebucket_interval;
    }
    if (deps.clock->Now() >= next_poll) {
      Poll();
      next_poll = options.poll_interval > absl::ZeroDuration()
                      ? deps.clock->Now() + options.poll_interval
                      : MonotonicTime::InfiniteFuture();
    }
    Reconcile();
    Publish();
  }
  StopAll();
}

void ModelManager::Impl::Poll() {
  absl::StatusOr<RepositorySnapshot> snapshot = repository.Poll();
  if (!snapshot.ok()) {
    // What is served stays served: an unreadable folder is no wish to unload.
    spdlog::error("repository {}: {}", repository.root(),
                  Std(snapshot.status().message()));
    return;
  }
  polled = true;
  if (snapshot->empty()) {
    spdlog::warn("repository {} holds no model", repository.root());
  }
  Follow(*snapshot);
}

void ModelManager::Impl::Follow(const RepositorySnapshot& snapshot) {
  for (auto& managed : versions) managed->wanted = false;
  for (const DesiredVersion& desired : snapshot) {
    const std::shared_ptr<const ModelSpec> spec =
        desired.spec.ok() ? *desired.spec : nullptr;
    const std::string error(desired.spec.status().message());
    auto known = std::find_if(
        versions.begin(), versions.end(), [&](const auto& managed) {
          return !managed->replaced && managed->model == desired.model &&
                 managed->version == desired.version && managed->spec == spec &&
                 (spec != nullptr || managed->reason == error);
        });
    if (known != versions.end()) {
      (*known)->wanted = true;
      continue;
    }
    const std::shared_ptr<Managed> managed =
        NewManaged(desired.model, desired.version);
    managed->spec = spec;
    if (spec == nullptr) Transition(*managed, VersionState::kFailed, error);
    versions.push_back(managed);
  }
}

std::shared_ptr<Managed> ModelManager::Impl::NewManaged(
    const std::string& model, int64_t version) const {
  auto managed = std::make_shared<Managed>();
  managed->model = model;
  managed->version = version;
  managed->series = std::make_shared<MetricScope>(
      metrics, Labels{{"model", model}, {"version", absl::StrCat(version)}});
  return managed;
}

std::vector<VersionSnapshot> ModelManager::Impl::Snapshots() const {
  std::vector<VersionSnapshot> snapshots;
  for (const auto& managed : versions) {
    snapshots.push_back(
        {managed->model, managed->version, managed->state, managed->wanted});
  }
  return snapshots;
}

void ModelManager::Impl::Reconcile() {
  while (const std::optional<Action> action = NextAction(Snapshots())) {
    const std::shared_ptr<Managed>& managed =
        versions[static_cast<size_t>(action->index)];
    if (action->kind == Action::Kind::kLoad) {
      Load(managed);
    } else {
      Unload(*managed, deps.clock->Now() + kReplacedVersionDrain);
    }
  }
  const auto gone = std::stable_partition(
      versions.begin(), versions.end(), [](const auto& managed) {
        return managed->wanted || (managed->state != VersionState::kUnloaded &&
                                   managed->state != VersionState::kFailed);
      });
  versions.erase(gone, versions.end());
}

Gauge ModelManager::Impl::StateGauge(const Managed& managed,
                                     VersionState state) const {
  return managed.series->Gauge(
      metric::kModelState, {{"model", managed.model},
                            {"version", absl::StrCat(managed.version)},
                            {"state", std::string(VersionStateName(state))}});
}

AutoBuckets ModelManager::Impl::ChooseBucketsOf(
    const ModelSpec& spec, const Toolchain& toolchain,
    const ModelTraffic& recorded) const {
  const int threads = ComputeThreads(spec, InstanceCpus(spec), deps.cores);
  return ChooseAutoBuckets(spec, recorded.Read(),
                           KnownBuckets(*deps.cache, spec, threads, toolchain));
}

// The spec itself, or one with the buckets that its traffic asks for.
std::shared_ptr<const ModelSpec> ModelManager::Impl::WithChosenBuckets(
    std::shared_ptr<const ModelSpec> spec, const Toolchain& toolchain,
    ModelTraffic& recorded) const {
  if (!spec->auto_buckets || !spec->compile.enabled || deps.cache == nullptr) {
    return spec;
  }
  return TakeBuckets(*spec, ChooseBucketsOf(*spec, toolchain, recorded),
                     recorded);
}

// Versions whose traffic asks for other buckets by now, or makes more of them
// pay back, are loaded once more, behind what serves, and take its place when
// their buckets are compiled.
void ModelManager::Impl::Rebucket() {
  if (deps.cache == nullptr) return;
  std::vector<std::shared_ptr<Managed>> successors;
  for (const auto& managed : versions) {
    if (!managed->wanted || managed->state != VersionState::kServing ||
        !managed->spec->compile.enabled ||
        !managed->running->ProgressText().empty()) {
      continue;
    }
    const std::shared_ptr<ModelTraffic> recorded = traffic.Of(*managed->spec);
    std::shared_ptr<const ModelSpec> replacement;
    if (managed->spec->auto_buckets) {
      AutoBuckets chosen = ChooseBucketsOf(
          *managed->spec, managed->running->toolchain(), *recorded);
      if (chosen.changed) {
        replacement = TakeBuckets(*managed->spec, std::move(chosen), *recorded);
      }
    }
    if (replacement == nullptr && managed->running->warmup().MorePaysBack()) {
      replacement = std::make_shared<ModelSpec>(managed->running->spec());
    }
    if (replacement == nullptr) continue;
    managed->wanted = false;
    managed->replaced = true;
    const std::shared_ptr<Managed> successor =
        NewManaged(managed->model, managed->version);
    successor->spec = managed->spec;
    successor->replacement = std::move(replacement);
    successors.push_back(successor);
  }
  versions.insert(versions.end(), successors.begin(), successors.end());
}

void ModelManager::Impl::Load(const std::shared_ptr<Managed>& managed) {
  Transition(*managed, VersionState::kLoading);
  absl::StatusOr<Placement> placement = devices.Find(*managed->spec);
  if (!placement.ok()) {
    Transition(*managed, VersionState::kFailed,
               std::string(placement.status().message()));
    return;
  }
  VersionDeps its = deps;
  its.placement = *std::move(placement);
  its.toolchain.gpu = its.placement.gpu;
  its.metrics = managed->series;
  its.traffic = traffic.Of(*managed->spec);
  its.samples = traffic.SamplesOf(*managed->spec);
  managed->running = std::make_shared<ModelVersion>(
      managed->replacement != nullptr
          ? managed->replacement
          : WithChosenBuckets(managed->spec, its.toolchain, *its.traffic),
      its);
  // Events may come after the version was let go, hence the weak pointer.
  managed->loader = Thread(absl::StrCat("load-", managed->model),
                           [this, weak = std::weak_ptr<Managed>(managed),
                            version = managed->running.get()] {
                             const absl::Status loaded = version->Load();
                             Post([this, weak, loaded] {
                               if (auto known = weak.lock())
                                 Loaded(*known, loaded);
                             });
                             if (!loaded.ok()) return;
                             version->warmup().Run();
                             Post([this, weak] {
                               if (auto known = weak.lock()) WarmedUp(*known);
                             });
                             version->warmup().RetimeDoubtful();
                           });
}

void ModelManager::Impl::WarmedUp(Managed& managed) {
  if (managed.state == VersionState::kWarming) {
    Transition(managed, VersionState::kServing);
  }
  if (managed.state == VersionState::kServing) {
    spdlog::info("{}: warm-up done", managed.spec->Label());
  }
}

void ModelManager::Impl::Loaded(Managed& managed, const absl::Status& status) {
  if (managed.state != VersionState::kLoading) return;  // unloaded meanwhile
  if (!status.ok()) {
    Transition(managed, VersionState::kFailed, std::string(status.message()));
    managed.running->Stop(MonotonicTime::InfinitePast());
    managed.loader.Join();
    managed.running.reset();
    return;
  }
  const bool serve_now = (managed.spec->ready_when == ReadyWhen::kEager &&
                          managed.replacement == nullptr) ||
                         managed.running->ProgressText().empty();
  Transition(managed,
             serve_now ? VersionState::kServing : VersionState::kWarming);
}

void ModelManager::Impl::Unload(Managed& managed, MonotonicTime deadline) {
  if (managed.state == VersionState::kServing) {
    Transition(managed, VersionState::kDraining);
    Publish();  // no new request finds it
  }
  if (managed.running != nullptr) {
    // Requests that hold a handle get their answer or UNAVAILABLE; the last
    // handle frees the object, whose threads have ended by then.
    managed.running->Stop(deadline);
    managed.loader.Join();
    managed.running.reset();
  }
  Transition(managed, VersionState::kUnloaded);
}

void ModelManager::Impl::Transition(Managed& managed, VersionState to,
                                    std::string reason) {
  const absl::Status legal = CheckTransition(managed.state, to);
  if (!legal.ok()) {
    spdlog::critical("{}:{}: {}", managed.model, managed.version,
                     Std(legal.message()));
    std::abort();
  }
  // Its successor or predecessor of the same number may be in that state.
  const bool shared =
      std::any_of(versions.begin(), versions.end(), [&](const auto& other) {
        return other.get() != &managed && other->model == managed.model &&
               other->version == managed.version &&
               other->state == managed.state;
      });
  if (!shared) StateGauge(managed, managed.state).Set(0);
  StateGauge(managed, to).Set(1);
  const std::string text =
      absl::StrCat(managed.model, ":", managed.version, ": ",
                   Absl(VersionStateName(managed.state)), " -> ",
                   Absl(VersionStateName(to)));
  if (to == VersionState::kFailed) {
    spdlog::error("{}: {}", text, reason);
  } else {
    spdlog::info("{}", text);
  }
  managed.state = to;
  managed.reason = std::move(reason);
}

void ModelManager::Impl::Publish() {
  auto next = std::make_shared<Published>();
  std::vector<Line> lines;
  const bool was_ready = Ready();
  bool settled = polled;
  bool any_serving = false;
  bool any_wanted = false;
  for (const auto& managed : versions) {
    const bool serving = managed->state == VersionState::kServing;
    if (serving) {
      // A reloaded version comes later in the list and replaces its older self.
      next->models[managed->model][managed->version] = managed->running;
    }
    any_serving |= serving;
    any_wanted |= managed->wanted;
    lines.push_back({{managed->model, managed->version, managed->state,
                      managed->reason, false},
                     managed->running});
  }
  for (const auto& managed : versions) {
    // A version that is being made ready to replace another takes no server
    // out of rotation.
    const bool replaces = was_ready && next->models.contains(managed->model);
    const bool given_up =
        managed->state == VersionState::kFailed && !deps.require_cache;
    settled &= !managed->wanted || managed->state == VersionState::kServing ||
               given_up || replaces;
  }
  for (auto& [line, running] : lines) {
    auto model = next->models.find(line.model);
    line.newest = model != next->models.end() &&
                  model->second.rbegin()->first == line.version;
  }
  const bool now_ready = settled && (any_serving || !any_wanted);
  bool became_ready = false;
  std::shared_ptr<const Published> old;  // freed without the lock
  {
    absl::MutexLock lock(&mu);
    became_ready = now_ready && !ready;
    ready = now_ready && !draining;
    old = std::exchange(published, next);
    index.swap(lines);  // the old ones are freed without the lock
  }
  if (became_ready) {
    metrics.Gauge(metric::kReadyTimestamp)
        .Set(absl::ToDoubleSeconds(deps.clock->WallNow() - absl::UnixEpoch()));
  }
  if (listener) listener();
}

void ModelManager::Impl::StopAll() {
  MonotonicTime deadline;
  {
    absl::MutexLock lock(&mu);
    deadline = drain_deadline;
    ready = false;
  }
  metrics.Gauge(metric::kReadyTimestamp).Set(0);
  for (auto& managed : versions) {
    if (managed->state != VersionState::kFailed &&
        managed->state != VersionState::kUnloaded) {
      Unload(*managed, deadline);
    }
  }
  traffic.Save();
  Publish();
}

ModelManager::ModelManager(ModelManagerOptions options,
                           ModelRepository& repository, KernelCache* cache,
                           Compiler* compiler, ExecutableLoader& loader,
                           Clock& clock, MetricRegistry& metrics) {
  VersionDeps deps;
  deps.cache = cache;
  deps.compiler = compiler;
  deps.clock = &clock;
  deps.cores = options.cores;
  deps.toolchain = options.toolchain;
  deps.verify_promotions = options.verify_promotions;
  deps.require_cache = options.require_cache;
  deps.trust_verdicts = options.trust_verdicts;
  deps.first_run = options.first_run;
  deps.reference = options.reference;
  deps.refusals = options.refusals;
  deps.machine = options.machine;
  impl_ = std::make_unique<Impl>(std::move(options), repository, loader,
                                 metrics, std::move(deps));
}

ModelManager::~ModelManager() { Drain(MonotonicTime::InfinitePast()); }

void ModelManager::OnReadinessChange(std::function<void()> listener) {
  impl_->listener = std::move(listener);
}

void ModelManager::Start() {
  impl_->thread = Thread("lifecycle", [this] { impl_->Run(); });
}

void ModelManager::Drain(MonotonicTime deadline) {
  {
    absl::MutexLock lock(&impl_->mu);
    if (!impl_->draining) impl_->drain_deadline = deadline;
    impl_->draining = true;
    impl_->ready = false;
  }
  impl_->thread.Join();
}

absl::StatusOr<ModelHandle> ModelManager::Acquire(std::string_view model,
                                                  int64_t version) const {
  absl::MutexLock lock(&impl_->mu);
  const auto& models = impl_->published->models;
  if (auto found = models.find(model); found != models.end()) {
    auto chosen = version == 0 ? std::prev(found->second.end())
                               : found->second.find(version);
    if (chosen != found->second.end()) return ModelHandle(chosen->second);
  }
  return WhyNot(impl_->index, model, version);
}

std::optional<ModelHandle> ModelManager::Successor(
    const ModelHandle& handle) const {
  const ModelSpec& spec = handle.spec();
  const absl::StatusOr<ModelHandle> now = Acquire(spec.name, spec.version);
  if (!now.ok() || *now == handle ||
      now->spec().program_digest != spec.program_digest) {
    return std::nullopt;
  }
  return *now;
}

bool ModelManager::Ready(std::string_view model, int64_t version) const {
  return Acquire(model, version).ok();
}

std::vector<Line> ModelManager::Impl::Lines() const {
  std::vector<Line> lines;
  {
    absl::MutexLock lock(&mu);
    lines = index;
  }
  for (auto& [line, running] : lines) {
    if (running == nullptr) continue;
    const std::string progress = running->ProgressText();
    if (!progress.empty()) line.reason = absl::StrCat("warming up: ", progress);
  }
  return lines;
}

std::vector<VersionStatus> ModelManager::Index() const {
  std::vector<VersionStatus> index;
  for (Line& line : impl_->Lines()) index.push_back(std::move(line.status));
  return index;
}

std::vector<VersionReport> ModelManager::Report() const {
  std::vector<VersionReport> report;
  for (Line& line : impl_->Lines()) {
    VersionReport& version = report.emplace_back();
    version.status = std::move(line.status);
    if (line.running == nullptr) continue;
    version.device = line.running->DeviceNames();
    version.warmup = line.running->progress();
    version.buckets = line.running->Buckets();
  }
  return report;
}

bool ModelManager::ServerReady() const { return impl_->Ready(); }

std::vector<std::string> ModelManager::ModelNames() const {
  absl::MutexLock lock(&impl_->mu);
  std::set<std::string> names;
  for (const Line& line : impl_->index) names.insert(line.status.model);
  return {names.begin(), names.end()};
}

}  // namespace stoker
