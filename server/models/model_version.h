// One version of one model: its weights, its eager floor, a slot per bucket and
// the batcher that runs them.
//
// Thread-safe. Load, WarmUp, MeasureAgain and Stop are called once each, in
// this order; Stop from another thread ends those that run.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "batching/batcher.h"
#include "compile_broker/compile_broker.h"
#include "kernel_cache/kernel_cache.h"
#include "metrics/metrics.h"
#include "models/bucket_slot.h"
#include "models/candidate_check.h"
#include "models/device_places.h"
#include "models/first_run.h"
#include "models/reference_run.h"
#include "models/version_report.h"
#include "models/version_stats.h"
#include "planning/traffic.h"
#include "planning/warmup_plan.h"
#include "repository/model_spec.h"
#include "runner/executable_loader.h"
#include "runner/toolchain.h"

namespace stoker {

class RecentRefusals;

// What a version works with; outlives it.
struct VersionDeps {
  KernelCache* cache = nullptr;     // null: no cache on this host, eager only
  CompileBroker* broker = nullptr;  // null with a null cache
  Placement placement;              // of this version
  Clock* clock = nullptr;
  MetricRegistry* metrics = nullptr;
  int cores = 1;
  Toolchain toolchain;  // its `gpu` is the placement's
  bool verify_promotions = true;
  bool require_cache = false;
  // Whether verdicts that are stored beside artifacts are taken for granted.
  bool trust_verdicts = true;
  FirstRun* first_run = nullptr;  // null: everything runs here at once
  const ReferenceRun* reference = nullptr;  // null: no float64 runs
  RecentRefusals* refusals = nullptr;       // null: only counted
  std::string machine;  // [a-z0-9]+: what timings are good for
  std::shared_ptr<ModelTraffic> traffic;    // of this model; null: not recorded
  std::shared_ptr<RequestSamples> samples;  // likewise
  std::function<bool()> server_ready;
};

class ModelVersion final : private BatchRunner {
 public:
  ModelVersion(std::shared_ptr<const ModelSpec> spec, const VersionDeps& deps);
  // Stop(now) unless stopped already.
  ~ModelVersion() override;

  const ModelSpec& spec() const { return *spec_; }
  VersionStats& stats() { return stats_; }
  const Toolchain& toolchain() const { return deps_.toolchain; }

  // Maps the weights, opens what the cache holds and, where that leaves a
  // bucket without an executable, the eager form. After OK requests can be
  // served. This is the only step whose failure fails the version.
  absl::Status Load();
  // Settles every bucket that is left: compile, open, check, promote or stay
  // eager. Returns when all are settled or Stop was called. Never fails the
  // version.
  void WarmUp();
  // Times again what was timed on another machine, or without a clear outcome,
  // behind traffic; promotes and demotes by it. After WarmUp.
  void MeasureAgain();
  // Ends WarmUp and MeasureAgain, refuses new tasks, runs queued ones until
  // `deadline`.
  void Stop(absl::Time deadline);

  absl::Status Submit(std::unique_ptr<InferTask>& task);
  void SweepCancelled() { batcher_.SweepCancelled(); }

  // Whether a bucket that WarmUp left because it didn't pay back does by now.
  // After WarmUp.
  bool MorePaysBack() const;

  // In the plan's order.
  std::vector<BucketStatus> Buckets() const;
  // "3 of 8 buckets settled; batch=1,tokens=64: build, 12 s"; empty when all
  // are.
  std::string Progress() const;
  // "cpu", "cuda:0, cuda:1".
  std::string DeviceNames() const;
  WarmupProgress Warmup() const ABSL_LOCKS_EXCLUDED(pace_mu_);
  const std::deque<BucketSlot>& slots() const { return slots_; }

 private:
  struct Arrival {  // of a compile
    int bucket;
    absl::StatusOr<CacheEntry> entry;
  };
  // What the broker's callbacks write. Shared with them, because a compile may
  // outlive the version that asked for it.
  struct Inbox {
    explicit Inbox(size_t buckets) : phases(buckets) {}
    struct Phase {
      std::string name;
      absl::Time since = absl::InfinitePast();
    };
    absl::Mutex mu;
    bool stopping ABSL_GUARDED_BY(mu) = false;
    std::deque<Arrival> arrivals ABSL_GUARDED_BY(mu);
    std::vector<Phase> phases ABSL_GUARDED_BY(mu);  // by bucket
  };

  // BatchRunner.
  int Match(absl::Span<const int64_t> sizes) const override;
  int bucket_count() const override;
  const ShapeBucket& bucket(int index) const override;
  void StartThread(int thread) override;
  void Idle(int thread, absl::FunctionRef<void()> wait) override;
  Outcome Run(int thread, int bucket, absl::Span<const Tensor> inputs) override;
  bool KeepsToThread(int bucket) const override;
  Outcome RunHere(int bucket, absl::Span<const Tensor> inputs) override;
  void OnBatch(const BatchReport& report) override;

  Buffer NewBuffer(int thread, size_t bytes) override;

  // One of the version's devices, with what is there once.
  struct Home {
    DevicePlace place;
    std::shared_ptr<WeightStore> weights;  // written by Load
    std::shared_ptr<Executable> eager;     // guarded by eager_mu_
  };
  static std::vector<Home> HomesOf(const Placement& placement);
  // Device threads are dealt out by homes, `instances` to each.
  int threads() const;
  Home& HomeOf(int thread);

  // Eager comes back when it was let go: whoever needs it first opens it.
  absl::StatusOr<std::shared_ptr<Executable>> Eager(int thread = 0)
      ABSL_LOCKS_EXCLUDED(eager_mu_);
  void LetEagerGo() ABSL_LOCKS_EXCLUDED(eager_mu_);
  // False while it opens, too.
  bool EagerIsOpen() const ABSL_LOCKS_EXCLUDED(eager_mu_);
  // With the executables of device thread `thread`.
  Outcome RunIn(ExecutionContext& context, int thread, int bucket,
                absl::Span<const Tensor> inputs);
  // What the slot's executable makes of it; nullopt: there is none, or it was
  // lost just now.
  std::optional<Outcome> RunSlot(ExecutionContext& context, int thread,
                                 int index, absl::Span<const Tensor> inputs);
  // The slot of the first promoted dynamic form that takes inputs of these
  // shapes; -1: none does.
  int FormFor(int thread, absl::Span<const Tensor> inputs) const;
  // Says of each bucket without code of its own what runs there.
  void UpdateFloors();
  // Settles a slot on the tier below; `why`, for people.
  void Demote(int index, std::string why);
  // Where the instances run, for the log.
  std::string WhereItRuns() const;
  // FAILED_PRECONDITION, with their names and keys, when the cache lacks
  // entries that `require_cache` insists on.
  absl::Status RequireCache(absl::Span<const WarmupStep* const> missing) const;
  // Opens the eager form and runs it once on the smallest shape.
  absl::Status ProveEager();

  // Which of them survive a run on this machine.
  std::vector<absl::Status> Survive(absl::Span<const CacheEntry> entries) const;
  // The plan's steps of dynamic forms, or of buckets, in its order.
  std::vector<const WarmupStep*> Steps(bool forms) const;
  // Settles those of the steps that the cache has, and a verdict on; adds those
  // that it hasn't.
  absl::Status SettleFromCache(absl::Span<const WarmupStep* const> steps,
                               std::vector<const WarmupStep*>& missing);
  // One bucket's way from a cache entry, which has survived a first run or not,
  // to a settled slot.
  void Settle(const WarmupStep& step, const CacheEntry& entry,
              const absl::Status& survived);
  struct Opened {
    std::vector<std::shared_ptr<Executable>> executables;  // by device thread
    absl::Duration first_run;                              // the shortest
  };
  // `survived`: its first run in a child process.
  absl::StatusOr<Opened> OpenAndRun(const WarmupStep& step,
                                    const CacheEntry& entry,
                                    const absl::Status& survived);
  // Sizes that an artifact of the step runs in.
  absl::StatusOr<DimensionSizes> RunSizes(const WarmupStep& step,
                                          const Executable& opened) const;
  // The slot of the form that serves a bucket without code of its own; -1:
  // eager does.
  int FormBehind(const WarmupStep& step) const;
  // Whether the verdict says what BeatsDynamic would find out.
  bool IsCompared(const WarmupStep& step, const Verdict& verdict) const;
  // Whether the bucket's own code is worth having beside the dynamic form that
  // takes its sizes; kept in the verdict, beside the artifact.
  absl::StatusOr<bool> BeatsDynamic(const WarmupStep& step,
                                    Executable& candidate, Verdict& verdict);
  absl::StatusOr<std::vector<std::shared_ptr<Executable>>> Open(
      const CacheEntry& entry);
  // Each on its device thread; returns the shortest time.
  absl::StatusOr<absl::Duration> RunOnce(
      absl::Span<const std::shared_ptr<Executable>> executables,
      absl::Span<const Tensor> inputs);
  CandidateCheck Checker();
  // The recorded requests that this version can take.
  std::vector<CandidateCheck::Recorded> RecordedRequests() const;
  // Gathers the evidence on an opened candidate and keeps it beside the
  // artifact.
  absl::StatusOr<Verdict> Check(const WarmupStep& step, const CacheEntry& entry,
                                Executable& candidate);
  absl::Status MeasureAgain(const WarmupStep& step, const CacheEntry& entry,
                            Verdict verdict);
  bool StoredVerdict(const ArtifactKey& key, Verdict& verdict) const;
  void StoreVerdict(const ArtifactKey& key, const Verdict& verdict) const;
  // FAILED_PRECONDITION when what model.yaml says of padding is wrong.
  absl::Status ProvePadding(Executable& eager);
  // Settles a bucket that needs no code of its own, where a form takes it:
  // false where none does, or it was asked for.
  bool LeaveToForm(const WarmupStep& step);
  // Settles one whose own code isn't worth having.
  void LeaveToForm(const WarmupStep& step, const Verdict& verdict);
  void Promote(const WarmupStep& step, const CacheEntry& entry,
               std::vector<std::shared_ptr<Executable>> executables,
               const Verdict& verdict, absl::Duration first_run);
  void FallBack(int bucket, std::string_view reason_label, std::string reason);

  // Graphs of the compiled buckets, the largest first, where there is a GPU
  // and they gain something; once for each bucket. Never fails the version.
  void CaptureGraphs();
  // Nothing, or why the bucket goes on without: a label for metrics and a
  // sentence.
  struct GraphRefusal {
    std::string_view label;
    std::string reason;
  };
  std::optional<GraphRefusal> CaptureGraph(const WarmupStep& step,
                                           int64_t max_bytes, int64_t& bytes);
  absl::StatusOr<CapturedGraph> CaptureOn(int thread, int bucket,
                                          absl::Span<const Tensor> inputs,
                                          int64_t max_bytes);
  void RefuseGraph(int bucket, const GraphRefusal& refusal);

  // Those that traffic asked for most come first.
  std::deque<const WarmupStep*> InOrderOfDemand(
      std::vector<const WarmupStep*> steps) const;
  // All that are left, or where a budget or a pay-back limits them the next one
  // that these allow; what they forbid stays eager.
  void SubmitCompiles();
  // Why the next compile is left, by what model.yaml allows; nullopt: it isn't.
  std::optional<std::string> BeyondBudget() const;
  // Likewise by bucket; empty: it isn't. Reads every manifest of the cache.
  std::vector<std::string> NotPayingBack() const;
  void SubmitCompile(const WarmupStep& step);
  std::deque<Arrival> WaitForArrivals();
  void HandleArrival(Arrival arrival);
  bool AllIn(std::initializer_list<BucketState> states) const;
  bool AllSettled() const;
  bool AllCompiled() const;  // nothing is left to eager
  bool FormsSettled() const;
  void UpdateWarmupGauge() ABSL_LOCKS_EXCLUDED(pace_mu_);
  bool stopping() const;

  // Constant after construction.
  const std::shared_ptr<const ModelSpec> spec_;
  const VersionDeps deps_;
  const Labels labels_;
  // By device thread, or one entry for all; empty: not confined.
  const absl::StatusOr<std::vector<std::vector<int>>> cpus_;
  const int threads_;  // compute threads per device thread
  const BucketTable table_;
  const std::vector<std::string> input_names_;
  const std::vector<WarmupStep> plan_;
  const BatchLayout layout_;

  // Own synchronisation.
  VersionStats stats_;
  std::deque<BucketSlot> slots_;  // by bucket

  std::vector<Home> homes_;

  std::atomic<bool> lost_ = false;  // it was said that the weights are

  // Each element is used by its device thread only, after StartThread.
  std::vector<std::unique_ptr<ExecutionContext>> contexts_;

  // Held while opening: one open, the others wait. Guards the homes' `eager`.
  mutable absl::Mutex eager_mu_;

  // How fast the warm-up goes.
  struct Pace {
    absl::Time start = absl::InfiniteFuture();
    absl::Time last = absl::InfiniteFuture();  // when a bucket was settled
    int settled_before = 0;
    int settled = 0;
  };
  mutable absl::Mutex pace_mu_;
  Pace pace_ ABSL_GUARDED_BY(pace_mu_);

  const std::shared_ptr<Inbox> inbox_;
  // Of Load's and WarmUp's thread.
  std::vector<int> attempts_;      // by bucket
  std::vector<bool> graph_tried_;  // likewise
  int graphs_kept_ = 0;
  int64_t graph_bytes_ = 0;  // of these, on the device that has most
  absl::Time submitted_ = absl::InfinitePast();  // the last compile
  std::deque<const WarmupStep*> to_compile_;     // not asked for yet
  absl::Duration spent_ = absl::ZeroDuration();  // on compiles
  absl::Duration last_compile_ = absl::ZeroDuration();
  // Of the entries that the slots were promoted from: nobody evicts them.
  std::vector<std::shared_ptr<const FileLock>> leases_;

  Batcher batcher_;  // last: its threads use everything above
};

}  // namespace stoker
