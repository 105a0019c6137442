#include "models/model_manager.h"

#include <optional>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/thread.h"
#include "models/lifecycle.h"
#include "models/model_version.h"
#include "models/pipeline_version.h"
#include "models/published_versions.h"
#include "models/resting_version.h"

namespace stoker {
namespace {

VersionDeps DepsOf(const ModelManagerOptions& options, KernelCache* cache,
                   Compiler* compiler, Clock& clock) {
  VersionDeps deps;
  deps.cache = cache;
  deps.compiler = compiler;
  deps.clock = &clock;
  deps.cores = options.cores;
  deps.toolchain = options.toolchain;
  deps.verify_promotions = options.verify_promotions;
  deps.compiles = options.compiles;
  deps.require_cache = options.require_cache;
  deps.trust_verdicts = options.trust_verdicts;
  deps.first_run = options.first_run;
  deps.isolated = options.isolated;
  deps.reference = options.reference;
  deps.refusals = options.refusals;
  deps.telemetry = options.telemetry;
  deps.tokenizers = options.tokenizers;
  deps.machine = options.machine;
  return deps;
}

}  // namespace

ModelHandle::ModelHandle(PublishedVersion version)
    : version_(std::move(version.running)),
      resting_(std::move(version.resting)),
      pipeline_(std::move(version.pipeline)) {}
const ModelSpec& ModelHandle::spec() const {
  if (version_ != nullptr) return version_->spec();
  return pipeline_ != nullptr ? pipeline_->spec() : resting_->spec();
}
VersionStats& ModelHandle::stats() const {
  if (version_ != nullptr) return version_->stats();
  return pipeline_ != nullptr ? pipeline_->stats() : resting_->stats();
}
absl::Status ModelHandle::Submit(std::unique_ptr<InferTask>& task) const {
  if (version_ != nullptr) return version_->Submit(task);
  return pipeline_ != nullptr ? pipeline_->Submit(task)
                              : resting_->Submit(task);
}
void ModelHandle::SweepCancelled() const {
  if (version_ != nullptr) return version_->SweepCancelled();
  if (pipeline_ != nullptr) return pipeline_->SweepCancelled();
  resting_->SweepCancelled();
}

struct ModelManager::Impl {
  Impl(const ModelManagerOptions& options, SnapshotSource& repository,
       ExecutableLoader& loader, MetricRegistry& metrics, VersionDeps deps)
      : clock(*deps.clock),
        repository(repository),
        explicit_control(options.explicit_control),
        lifecycle({.poll_interval = options.poll_interval,
                   .rebucket_interval = options.rebucket_interval,
                   .explicit_control = options.explicit_control,
                   .load_models = options.load_models,
                   .idle_after = options.idle_after,
                   .memory_budget = options.memory_budget,
                   .gpus = options.gpus,
                   .resources = options.resources},
                  repository, loader, WithReadiness(std::move(deps)), metrics,
                  published, events) {}

  VersionDeps WithReadiness(VersionDeps deps) {
    deps.server_ready = [this] { return published.ready(); };
    return deps;
  }

  using Change = void (Lifecycle::*)(const std::string& model, Done done);
  // Has the lifecycle thread make it.
  void Post(Change change, std::string model, const Done& done) {
    const bool posted =
        events->PostUnlessClosed([this, change, model = std::move(model),
                                  done] { (lifecycle.*change)(model, done); });
    if (!posted) done(absl::UnavailableError("Server exiting"));
  }

  void PostLoad(std::string model, std::optional<std::string> aliases,
                const Done& done) {
    const bool posted = events->PostUnlessClosed(
        [this, model = std::move(model), aliases = std::move(aliases), done] {
          lifecycle.LoadModel(model, aliases, done);
        });
    if (!posted) done(absl::UnavailableError("Server exiting"));
  }

  // Of the lifecycle thread.
  void Run() {
    MonotonicTime next = MonotonicTime::InfinitePast();
    for (;;) {
      for (const LifecycleEvents::Event& event : events->Await(clock, next)) {
        event();
      }
      if (events->closed()) break;
      next = lifecycle.Step();
    }
    MonotonicTime deadline;
    {
      absl::MutexLock lock(&mu);
      deadline = drain_deadline;
    }
    lifecycle.StopAll(deadline);
  }

  Clock& clock;
  SnapshotSource& repository;
  const bool explicit_control;
  PublishedVersions published;
  const std::shared_ptr<LifecycleEvents> events =
      std::make_shared<LifecycleEvents>();
  Lifecycle lifecycle;  // the lifecycle thread's own, from Start to its end

  absl::Mutex mu;
  bool draining ABSL_GUARDED_BY(mu) = false;
  MonotonicTime drain_deadline ABSL_GUARDED_BY(mu) =
      MonotonicTime::InfiniteFuture();

  Thread thread;  // last
};

ModelManager::ModelManager(const ModelManagerOptions& options,
                           SnapshotSource& repository, KernelCache* cache,
                           Compiler* compiler, ExecutableLoader& loader,
                           Clock& clock, MetricRegistry& metrics)
    : impl_(std::make_unique<Impl>(options, repository, loader, metrics,
                                   DepsOf(options, cache, compiler, clock))) {}

ModelManager::~ModelManager() { Drain(MonotonicTime::InfinitePast()); }

void ModelManager::OnReadinessChange(std::function<void()> listener) {
  impl_->lifecycle.OnPublish(std::move(listener));
}

void ModelManager::Start() {
  impl_->thread = Thread("lifecycle", [this] { impl_->Run(); });
}

void ModelManager::Drain(MonotonicTime deadline) {
  {
    absl::MutexLock lock(&impl_->mu);
    if (!impl_->draining) impl_->drain_deadline = deadline;
    impl_->draining = true;
  }
  impl_->published.Close();
  impl_->events->Close();
  impl_->thread.Join();
  // What was asked of a thread that never ran.
  impl_->lifecycle.Refuse();
  for (const LifecycleEvents::Event& event :
       impl_->events->Await(impl_->clock, MonotonicTime::InfinitePast())) {
    event();
  }
}

absl::StatusOr<ModelHandle> ModelManager::Acquire(
    std::string_view model, const WantedVersion& version) const {
  absl::StatusOr<PublishedVersion> found =
      impl_->published.Acquire(model, version);
  if (!found.ok()) return std::move(found).status();
  return ModelHandle(*std::move(found));
}

absl::StatusOr<ModelHandle> ModelManager::AcquireForRun(
    std::string_view model, const WantedVersion& version) const {
  absl::StatusOr<PublishedVersion> found =
      impl_->published.AcquireForRun(model, version);
  if (!found.ok()) return std::move(found).status();
  return ModelHandle(*std::move(found));
}

bool ModelManager::Ready(std::string_view model,
                         const WantedVersion& version) const {
  return Acquire(model, version).ok();
}

std::vector<VersionStatus> ModelManager::Index() const {
  std::vector<VersionStatus> index;
  for (PublishedVersions::Line& line : impl_->published.Lines()) {
    index.push_back(std::move(line.status));
  }
  for (std::string& model : impl_->published.Unloaded()) {
    index.push_back({.model = std::move(model),
                     .state = VersionState::kUnloaded,
                     .reason = ""});
  }
  return index;
}

bool ModelManager::explicit_control() const { return impl_->explicit_control; }

void ModelManager::Load(std::string model, Done done) {
  impl_->PostLoad(std::move(model), std::nullopt, done);
}

void ModelManager::Load(std::string model, const ModelOverride& override,
                        Done done) {
  if (override.empty()) return Load(std::move(model), std::move(done));
  if (const std::string* const aliases = override.aliases_alone()) {
    return impl_->PostLoad(std::move(model), *aliases, done);
  }
  absl::StatusOr<RepositorySnapshot> versions =
      impl_->repository.Override(model, override);
  if (!versions.ok()) {
    return done(absl::Status(versions.status().code(),
                             absl::StrCat("failed to load '", model, "', ",
                                          versions.status().message())));
  }
  const bool posted = impl_->events->PostUnlessClosed(
      [impl = impl_.get(), model, versions = *std::move(versions), done] {
        impl->lifecycle.LoadVersions(model, versions, done);
      });
  if (!posted) done(absl::UnavailableError("Server exiting"));
}

void ModelManager::Unload(std::string model, Done done) {
  impl_->Post(&Lifecycle::UnloadModel, std::move(model), done);
}

void ModelManager::UnloadWithSteps(std::string model, Done done) {
  impl_->Post(&Lifecycle::UnloadWithSteps, std::move(model), done);
}

void ModelManager::RefreshIndex(Done done) {
  impl_->Post(&Lifecycle::RefreshNames, "", done);
}

std::vector<VersionReport> ModelManager::Report() const {
  std::vector<VersionReport> report;
  for (PublishedVersions::Line& line : impl_->published.Lines()) {
    VersionReport& version = report.emplace_back();
    version.status = std::move(line.status);
    if (line.running == nullptr) {
      // Others do what there is to do for a pipeline.
      version.improved = version.status.state == VersionState::kServing;
      continue;
    }
    version.device = line.running->DeviceNames();
    version.warmup = line.running->progress();
    version.improved = line.running->warmup().improved();
    version.buckets = line.running->Buckets();
  }
  return report;
}

bool ModelManager::ServerReady() const { return impl_->published.ready(); }

std::vector<std::string> ModelManager::ModelNames() const {
  std::set<std::string> names;
  for (const PublishedVersions::Line& line : impl_->published.Lines()) {
    names.insert(line.status.model);
  }
  return {names.begin(), names.end()};
}

}  // namespace stoker
