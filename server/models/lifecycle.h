// What becomes of model versions: follows the repository, loads, replaces,
// drains, unloads, and publishes what serves. Every decision is made in Step,
// on one thread, which never waits for a request or a compile; loading and
// warming up have a thread for each version, which tells of its end by an
// event.
//
// A version that goes is taken from what is published first. Whoever acquired
// it before may still submit to it, and is answered: it stops when the last
// such holder is gone, or after kReplacedVersionDrain; and is waited for a
// moment only, whatever it still runs (stopping_versions.h).
//
// Not thread-safe: of the lifecycle thread. A test may be that thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/thread.h"
#include "metrics/metrics.h"
#include "models/awaited_changes.h"
#include "models/device_places.h"
#include "models/lifecycle_events.h"
#include "models/published_versions.h"
#include "models/resting_version.h"
#include "models/stopping_versions.h"
#include "models/version_aliases.h"
#include "models/version_deps.h"
#include "models/version_policy.h"
#include "pipelines/step_model.h"
#include "planning/traffic.h"
#include "repository/pipeline_spec.h"
#include "repository/snapshot_source.h"
#include "runner/executable_loader.h"

namespace stoker {

class PipelineVersion;

// How long requests may hold a version that something else took the place of.
inline constexpr absl::Duration kReplacedVersionDrain = absl::Minutes(5);

struct LifecycleOptions {
  absl::Duration poll_interval =
      absl::ZeroDuration();  // 0: read the repository once
  // How often `buckets: auto` looks at the traffic of what serves; 0: only when
  // a version is loaded.
  absl::Duration rebucket_interval = absl::ZeroDuration();
  // Of the repository only what is chosen is wanted, whatever else it holds:
  // models at the start, "*" for all; from then on LoadModel and UnloadModel
  // choose. Not with a poll interval.
  bool explicit_control = false;
  std::vector<std::string> load_models;
  // Without a request for so long, a version gives way to a load that finds no
  // memory on its GPU; infinite: never.
  absl::Duration idle_after = absl::InfiniteDuration();
  // What versions may take of the host's memory together (host_memory.h), in
  // bytes; 0: no limit. Beyond it those rest that nobody asked for longest.
  int64_t memory_budget = 0;
  // Asked when a model is first to run on a GPU; empty: there are none.
  DevicePlaces::FindGpus gpus;
  ResourceLimits resources;  // that models name
};

class Lifecycle {
 public:
  // What is passed by reference outlives this object. `deps`: of all versions;
  // placement, metrics, traffic and samples are each one's own. `events` are to
  // be called by whoever calls Step, before it.
  Lifecycle(const LifecycleOptions& options, SnapshotSource& repository,
            ExecutableLoader& loader, VersionDeps deps, MetricRegistry& metrics,
            PublishedVersions& published,
            std::shared_ptr<LifecycleEvents> events);
  // After StopAll, if Step was ever called.
  ~Lifecycle();

  // Called after each publication.
  void OnPublish(std::function<void()> listener) {
    listener_ = std::move(listener);
  }

  // With explicit control, at any time. What serves stays until what takes its
  // place serves, and when that fails; other models are not looked at. `done`
  // is told when the wanted versions serve, or have failed.
  // `aliases`: in place of the text of its aliases.yaml, unless nullopt.
  void LoadModel(const std::string& model,
                 const std::optional<std::string>& aliases,
                 AwaitedChanges::Done done);
  // The same of what a request says of the model instead of the repository:
  // `versions` have no errors.
  void LoadVersions(const std::string& model,
                    const RepositorySnapshot& versions,
                    AwaitedChanges::Done done);
  // `done` is told when no new request finds a version of the model. One that
  // nobody has heard of is no error.
  void UnloadModel(const std::string& model, AwaitedChanges::Done done);
  // The same, and of the models that were loaded with it as its steps and that
  // no other pipeline has.
  void UnloadWithSteps(const std::string& model, AwaitedChanges::Done done);
  // From now on all of these are refused.
  void Refuse() { stopped_ = true; }
  // Looks at what models there are, whatever `model` says; `done` is told when
  // that is published.
  void RefreshNames(const std::string& model, AwaitedChanges::Done done);

  // Does what is due, and publishes. Returns when it is to be called again, if
  // no event comes first.
  MonotonicTime Step();
  // Runs queued requests until `deadline`, and ends everything.
  void StopAll(MonotonicTime deadline);

 private:
  // What a load may take of the host's memory, in bytes.
  struct Need {
    int64_t least = 0;
    int64_t most = 0;
  };
  // What it takes to load a version again that was stopped.
  struct Former {
    int64_t version = 0;
    std::shared_ptr<const ModelSpec> spec;
    std::shared_ptr<const ModelSpec> replacement;
    MonotonicTime gap_since;
  };
  // A version on its way through its life.
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
    // What is published of it: the same version, but when the last copy of this
    // pointer goes, an event says so. Null before it serves.
    std::shared_ptr<ModelVersion> held;
    std::weak_ptr<ModelVersion> holders;  // of `held`, when it drains
    MonotonicTime drain_until = MonotonicTime::InfiniteFuture();
    int failed_loads = 0;  // in a row, its predecessors' included
    // When one that failed for want of something is tried again.
    MonotonicTime retry_at = MonotonicTime::InfiniteFuture();
    Thread loader;

    // --- made of others (pipeline_steps.cc) ---
    std::shared_ptr<PipelineVersion> pipeline;  // while it serves
    // What its steps' models were when it was made.
    std::vector<std::shared_ptr<const ModelSpec>> steps;
    // By step, null where it has a model. Null: not read yet.
    std::shared_ptr<
        const absl::StatusOr<std::vector<std::shared_ptr<StepModel>>>>
        tokenizers;

    // --- update: replace ---
    // Was stopped for this one, and is loaded again where it fails.
    std::vector<Former> stopped_for_it;
    MonotonicTime gap_since;  // of one that comes back
    bool makes_room = false;  // goes for one that waits for its memory

    // --- rests (idle_versions.cc) ---
    // Why it isn't in memory, though it takes requests; or empty. Also of its
    // successor, until that serves.
    std::string rests;
    // Its requests wait here then. Null: it never rested.
    std::shared_ptr<RestingVersion> resting;
    std::shared_ptr<MetricScope> request_series;  // of `running`'s requests
    bool wake = false;  // it is loaded again when it has gone to rest
    // A load waits for room in the budget.
    bool awaits_room = false;
    // What it took of the host's memory when that was last known; 0: never.
    int64_t host_bytes = 0;

    // Such a former one, that comes back, when its time has come.
    bool restored = false;
    bool comes_back() const { return restored && !wanted; }
    MonotonicTime load_after = MonotonicTime::InfinitePast();
    // Failed for want of something, but isn't tried again while a former one
    // may serve: each try is a gap.
    bool may_pass = false;
  };

  void PollWhenDue();
  void Poll();
  // The first, with explicit control.
  absl::StatusOr<RepositorySnapshot> PollChosen();
  void ReadNames();
  // What a snapshot says of one model or, with an empty name, of all.
  // `retry`: those that failed are loaded once more.
  void Follow(const RepositorySnapshot& snapshot, std::string_view model,
              bool retry);
  // What it says of aliases.
  void FollowAliases(const RepositorySnapshot& snapshot,
                     std::string_view model);
  // An alias means it until another version serves.
  bool HasAlias(const Managed& managed) const;
  std::shared_ptr<Managed> NewManaged(const std::string& model,
                                      int64_t version) const;
  // Versions whose traffic asks for other buckets by now, or makes more of them
  // pay back, are loaded once more, behind what serves, and take its place when
  // their buckets are compiled.
  void Rebucket();
  std::shared_ptr<const ModelSpec> BetterBuckets(const Managed& managed);
  // Those whose load failed for want of something that may be there by now are
  // loaded once more, when their time has come; those that rest, when somebody
  // asks.
  void RetryLoads();
  // A new object of the same version, to be loaded again in its stead.
  std::shared_ptr<Managed> Successor(Managed& managed) const;
  // Carries out the policy's actions.
  void Reconcile();
  void Load(const std::shared_ptr<Managed>& managed);
  void Loaded(Managed& managed, const absl::Status& status);
  void WarmedUp(Managed& managed);
  // No new request finds it.
  void BeginDrain(Managed& managed);
  void EndDrains();
  // In the middle of a run as well, which then goes on aside.
  void Unload(Managed& managed);
  // Waits for it, however long it takes.
  void UnloadLast(Managed& managed, MonotonicTime deadline);
  // Drops those that are gone.
  void Forget();

  // --- versions that are made of others (pipeline_steps.cc) ---

  // What stands between a pipeline and its service.
  struct Outlook {
    enum class Kind { kReady, kWaits, kFails };
    Kind kind = Kind::kReady;
    std::string why;
    std::vector<std::shared_ptr<const ModelSpec>> steps;  // null: a tokenizer
  };
  void LoadPipeline(const std::shared_ptr<Managed>& managed);
  // Those whose steps' models serve by now serve, and those don't any more
  // whose steps' models don't.
  void SettlePipelines();
  bool SettlePipeline(Managed& managed);
  Outlook OutlookOf(const Managed& managed) const;
  // What a step's model declares; null: none serves, and `outlook` says so.
  std::shared_ptr<const ModelSpec> FindStep(const PipelineStep& step,
                                            Outlook& outlook) const;
  // "a -> b -> a", or too deep; empty: neither.
  std::string CircleOf(const std::string& model,
                       std::vector<std::string>& way) const;
  const PipelineSpec* PipelineOf(const std::string& model) const;
  // It serves, as its steps' models are now.
  void MakePipeline(Managed& managed, const Outlook& outlook,
                    std::shared_ptr<const ModelSpec> spec);
  // Models that pipelines of `snapshot` name and nobody wants yet, and those
  // that these name.
  void FollowSteps(const RepositorySnapshot& snapshot);
  bool IsWanted(std::string_view model) const;

  // --- update: replace (replaced_versions.cc) ---

  // Of those that go, one gives way to what waits for its memory. False: that
  // has failed instead.
  bool MakeRoom(Managed& managed);
  // One that never served goes: what was stopped for it is its heir's.
  void HandOn(Managed& managed);
  // It failed: what was stopped for it is loaded again.
  void Restore(Managed& failed);
  static Former FormerOf(const Managed& managed, MonotonicTime gap_since);
  // A new object of what was stopped, to be loaded again.
  Managed& BringBack(const std::string& model, Former former);
  // One that was to come back failed, too.
  void RestoreFailed(Managed& restored, const absl::Status& status);
  // It serves: the gap is over.
  void EndGap(Managed& managed);
  // What requests are told in a gap; empty: there is none.
  static std::string GapText(const Managed& managed);
  // Lines of what was stopped and isn't there in any form.
  void AddStopped(std::vector<PublishedVersions::Line>& lines) const;
  // Its memory isn't free before the object is gone.
  void LetGo(Managed& managed);

  // --- idle versions' memory (idle_versions.cc) ---

  // Those that nobody asked for longest go, as many as it takes for a load that
  // found no memory on a GPU to be tried again. False: that would not do, and
  // none goes.
  bool MakeIdleRest(const Managed& starved);
  std::vector<Managed*> IdleOn(const DevicePlace& place,
                               const Managed& starved) const;
  // Those of which nothing is lost and nobody waits, who was asked longest ago
  // first.
  std::vector<Managed*> IdleVersions() const;
  // `where`: its memory; `for_whom`: what that is for.
  void Rest(Managed& idle, std::string_view where, std::string_view for_whom);
  // Rests, or is on its way there.
  static bool GoesToRest(const Managed& managed);
  static bool IsAskedFor(const Managed& resting);
  // It can't be loaded again: its requests are told so.
  static void FailResting(Managed& managed, std::string_view why);
  // Ends what has waited too long for one that rests; returns when the next
  // has.
  MonotonicTime EndExpired() const;

  // --- the host's memory (memory_budget.cc) ---

  // Who rests, and what may be loaded now.
  void KeepBudget();
  // Whether it may be loaded; makes room for it, as far as there are idle ones,
  // beside those that `promised` is for.
  bool FindRoom(const Managed& coming, const Need& promised);
  // Idle versions rest while `bytes` less theirs are more than the budget, but
  // the last `leave` of them.
  void RestWhileOver(int64_t bytes, const std::string& for_whom, size_t leave);
  static Need NeedOf(const Managed& coming);
  // Of all that is in memory and stays there.
  Need HeldBytes() const;
  // Of what is on its way out.
  int64_t LeavingBytes() const;
  // In the metrics; remembers it for the next load.
  void ShowMemory();

  // 1 for the state that a version is in.
  Gauge StateGauge(const Managed& managed, VersionState state) const;
  // Whether its successor or predecessor of the same number is in the same
  // state, so that the gauge is about both.
  bool SharesState(const Managed& managed) const;
  void Transition(Managed& managed, VersionState to, std::string reason = "");
  void Publish();
  // What the aliases mean now.
  PublishedVersions::Aliases SettledAliases(
      const PublishedVersions::Serving& serving);
  std::vector<VersionSnapshot> Snapshots() const;
  void SettleChanges();

  const LifecycleOptions options_;
  SnapshotSource& repository_;
  DevicePlaces devices_;
  TrafficKeeper traffic_;
  const VersionDeps deps_;
  MetricRegistry& metrics_;
  PublishedVersions& published_;
  const std::shared_ptr<LifecycleEvents> events_;
  std::function<void()> listener_;

  std::deque<std::shared_ptr<Managed>> versions_;
  // Unloaded, and perhaps still held by somebody: model and object.
  std::vector<std::pair<std::string, std::weak_ptr<ModelVersion>>> leaving_;
  StoppingVersions stopping_;
  AwaitedChanges changes_;
  std::map<std::string, VersionAliases> aliases_;  // by model
  std::vector<std::string> names_;  // with explicit control, of all models
  std::set<std::string> loaded_as_steps_;  // and not by name
  bool stopped_ = false;
  bool polled_ = false;
  MonotonicTime next_poll_;
  MonotonicTime next_save_;
  MonotonicTime next_rebucket_;
};

}  // namespace stoker
