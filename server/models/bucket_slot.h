// Where a bucket's executable lives: compiled, or empty, which means "run
// eager". Promotion and demotion are one pointer swap; a batch reads the slot
// once.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "metrics/metrics.h"
#include "promotion/verdict.h"
#include "runner/executable.h"

namespace stoker {

enum class BucketState {
  kPending,    // not looked at yet
  kCompiling,  // a job is queued or running
  kOpening,    // the artifact is being opened and run for the first time
  kChecking,   // parity and profit
  kCompiled,   // settled: the compiled executable serves
  kEager,      // settled: eager serves, `detail` says why
};

std::string_view BucketStateName(BucketState state);

inline bool IsSettled(BucketState state) {
  return state == BucketState::kCompiled || state == BucketState::kEager;
}

class BucketSlot {
 public:
  struct Snapshot {
    BucketState state = BucketState::kPending;
    std::string detail;  // why it stays on eager
    Verdict verdict;
    std::string key;
  };

  // `labels`: model, version, bucket.
  BucketSlot(std::string name, MetricRegistry& metrics, Labels labels);

  const std::string& name() const { return name_; }

  // The executable of device thread `thread`; null: eager.
  std::shared_ptr<Executable> executable(int thread) const;

  void SetKey(std::string key);
  void SetState(BucketState state);
  // One executable per device thread; state becomes kCompiled. The compile that
  // made them took `compile_seconds`, here or elsewhere.
  void Promote(std::vector<std::shared_ptr<Executable>> executables,
               const Verdict& verdict, double compile_seconds);
  // One more run of the compiled executable.
  void CountRun();
  // State becomes kEager. Returns whether there was something to lose.
  bool Demote(std::string reason);

  Snapshot Read() const;
  bool settled() const;

 private:
  void EnterLocked(BucketState state, std::string detail)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string name_;
  MetricRegistry& metrics_;
  const Labels labels_;
  Counter saved_;

  mutable absl::Mutex mu_;
  Snapshot now_ ABSL_GUARDED_BY(mu_);
  double saved_per_run_ ABSL_GUARDED_BY(mu_) = 0;  // seconds; 0: nothing
  std::vector<std::shared_ptr<Executable>> executables_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
