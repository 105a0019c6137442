// Where the compiled executable of a bucket, or of a dynamic form, lives; empty
// means "run the tier below". Promotion and demotion are one pointer swap; a
// batch reads the slot once. The executables that it loses are freed outside of
// its lock, on the thread that took them out.
//
// Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernel_cache/entry_store.h"
#include "metrics/metrics.h"
#include "models/fallback_reason.h"
#include "promotion/verdict.h"
#include "runner/executable.h"

namespace stoker {

enum class BucketState {
  kPending,    // not looked at yet
  kCompiling,  // a job is queued or running
  kOpening,    // the artifact is being opened and run for the first time
  kChecking,   // parity and profit
  kCompiled,   // settled: the compiled executable serves
  kDynamic,    // settled: a dynamic form serves, `fallback` says why
  kEager,      // settled: eager serves, `fallback` says why
};

std::string_view BucketStateName(BucketState state);

inline bool IsSettled(BucketState state) {
  return state == BucketState::kCompiled || state == BucketState::kDynamic ||
         state == BucketState::kEager;
}

class BucketSlot {
 public:
  struct Snapshot {
    BucketState state = BucketState::kPending;
    FallbackReason fallback = FallbackReason::kNone;
    std::string detail;  // its text, for people; empty where there is none
    Verdict verdict;
    std::string key;
    std::optional<ArtifactId> artifact;  // that serves; nullopt: none does
    // Of graphs: what they gain, or why there are none; empty: not tried.
    std::string graph;
    double graph_gain = 0;  // compiled over captured run time; 0: no graph
    int64_t graph_bytes = 0;
  };

  // `labels`: model, version, bucket.
  BucketSlot(std::string name, MetricSource& metrics, Labels labels);

  const std::string& name() const { return name_; }

  // What device thread `thread` runs: the graph, or the compiled form; null:
  // eager.
  std::shared_ptr<Executable> executable(int thread) const;
  // The same for a run that gets all its threads, or fewer, with which what is
  // compiled may be slower than eager.
  std::shared_ptr<Executable> executable(int thread, bool all_threads) const;
  // Whether runs that get fewer are the tier's below.
  bool NeedsAllThreads() const;
  // The compiled form, whether or not there is a graph of it.
  std::shared_ptr<Executable> compiled(int thread) const;

  void SetKey(std::string key);
  void SetState(BucketState state);
  // One executable of `entry` per device thread; state becomes kCompiled. The
  // entry's lease is held for as long as they are here: it keeps the entry from
  // being evicted.
  void Promote(std::vector<std::shared_ptr<Executable>> executables,
               const Verdict& verdict, const CacheEntry& entry);
  // Another word on the forms that serve; nothing where none does.
  void Judge(const Verdict& verdict);
  // Graphs of the compiled forms, one per device thread, `gain` times as fast.
  // False, and nothing is changed, when these forms aren't the slot's any more.
  bool AddGraphs(const std::vector<std::shared_ptr<Executable>>& compiled,
                 std::vector<std::shared_ptr<Executable>> graphs, double gain,
                 int64_t bytes);
  // From now on the compiled form itself runs, if there is one.
  void DropGraphs(std::string reason);
  std::vector<std::shared_ptr<Executable>> all_compiled() const;
  // One more run of the compiled executable.
  void CountRun();
  // Likewise of a dynamic form's, whose runs are of any length.
  void CountRun(absl::Duration run);
  // State becomes kEager. Returns whether there was something to lose.
  bool Demote(FallbackReason reason, std::string_view why);
  // What runs where nothing was promoted: a dynamic form or eager. Nothing
  // changes before that is settled.
  void SetFloor(BucketState floor);

  Snapshot Read() const;
  bool settled() const;

 private:
  // Empties the graphs; the caller frees what it gets without the lock.
  std::vector<std::shared_ptr<Executable>> TakeGraphsLocked(std::string why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EnterLocked(BucketState state, FallbackReason reason, std::string detail)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string name_;
  MetricSource& metrics_;
  const Labels labels_;
  Counter saved_;

  mutable absl::Mutex mu_;
  Snapshot now_ ABSL_GUARDED_BY(mu_);
  double saved_per_run_ ABSL_GUARDED_BY(mu_) = 0;  // seconds; 0: nothing
  std::vector<std::shared_ptr<Executable>> compiled_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<Executable>> graphs_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const void> lease_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
