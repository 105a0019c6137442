// A BatchRunner that runs a function instead of a model, remembers its runs,
// and holds them at a gate while a test wants device threads to be busy:
//
//   FakeBatchRunner runner(buckets, paddable, model);
//   runner.Hold();
//   ... enqueue ...
//   runner.BlockUntilHeld(1);   // one run has begun
//   runner.Release();           // it and all later ones go on
//
// Thread-safe.
#pragma once

#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "batching/batch_runner.h"
#include "tensor/shape_bucket.h"
#include "tensor/tensor.h"
#include "tests/fakes/fake_clock.h"

namespace stoker {

class FakeBatchRunner : public BatchRunner {
 public:
  using Model = std::function<Outcome(int bucket, absl::Span<const Tensor>)>;

  static constexpr int kHere = -1;
  struct RunRecord {
    int thread;  // kHere: of the caller of Enqueue
    int bucket;
    std::vector<Shape> shapes;
    std::vector<const std::byte*> data;  // where the inputs lay
  };

  FakeBatchRunner(std::vector<ShapeBucket> buckets, std::vector<bool> paddable,
                  Model model)
      : table_(std::move(buckets), std::move(paddable)),
        model_(std::move(model)) {}

  int Match(absl::Span<const int64_t> sizes) const override {
    return table_.Match(sizes).value_or(-1);
  }
  int bucket_count() const override {
    return static_cast<int>(table_.buckets().size());
  }
  const ShapeBucket& bucket(int index) const override {
    return table_.buckets()[static_cast<size_t>(index)];
  }

  void StartThread(int thread) override {
    absl::MutexLock lock(&mu_);
    started_.push_back(thread);
  }

  bool KeepsToThread(int /*bucket*/) const override {
    absl::MutexLock lock(&mu_);
    return keeps_to_thread_;
  }
  Outcome RunHere(int bucket, absl::Span<const Tensor> inputs) override {
    return Run(kHere, bucket, inputs);
  }
  Outcome Run(int thread, int bucket,
              absl::Span<const Tensor> inputs) override {
    RunRecord record{thread, bucket, {}, {}};
    for (const Tensor& input : inputs) {
      record.shapes.push_back(input.shape);
      record.data.push_back(input.data);
    }
    {
      absl::MutexLock lock(&mu_);
      runs_.push_back(std::move(record));
      // Both use what belongs to thread 0.
      if (thread <= 0 && ++first_thread_runs_ > 1) ++overlaps_;
      held_.insert(thread);
      const auto may_pass = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
        const bool holds = thread == kHere ? holding_here_ : holding_;
        return !holds || held_.count(thread) == 0;
      };
      mu_.Await(absl::Condition(&may_pass));
      held_.erase(thread);
    }
    Outcome outcome = model_(bucket, inputs);
    absl::MutexLock lock(&mu_);
    if (clock_ != nullptr) clock_->Advance(run_time_);
    if (thread <= 0) --first_thread_runs_;
    return outcome;
  }

  // What KeepsToThread answers from now on.
  void KeepToThread() {
    absl::MutexLock lock(&mu_);
    keeps_to_thread_ = true;
  }

  void OnBatch(const BatchReport& report) override {
    absl::MutexLock lock(&mu_);
    reports_.push_back(report);
  }

  // Every run from now on moves `clock`, which outlives this, by `time`.
  void TakeTime(FakeClock& clock, absl::Duration time) {
    absl::MutexLock lock(&mu_);
    clock_ = &clock;
    run_time_ = time;
  }

  // Runs on device threads that begin from now on wait at the gate.
  void Hold() {
    absl::MutexLock lock(&mu_);
    holding_ = true;
  }
  // Runs on callers' threads do.
  void HoldHere() {
    absl::MutexLock lock(&mu_);
    holding_here_ = true;
  }
  // Blocks until `count` runs wait at the gate.
  void BlockUntilHeld(int count) {
    absl::MutexLock lock(&mu_);
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return static_cast<int>(held_.size()) >= count;
    };
    mu_.Await(absl::Condition(&enough));
  }
  // Lets the run that thread `thread` has at the gate go on, and no other.
  void ReleaseThread(int thread) {
    absl::MutexLock lock(&mu_);
    held_.erase(thread);
  }
  // Opens the gate.
  void Release() {
    absl::MutexLock lock(&mu_);
    holding_ = false;
    holding_here_ = false;
  }

  // Runs that began while another one used the same thread's executables.
  int overlaps() const {
    absl::MutexLock lock(&mu_);
    return overlaps_;
  }
  std::vector<RunRecord> runs() const {
    absl::MutexLock lock(&mu_);
    return runs_;
  }
  std::vector<BatchReport> reports() const {
    absl::MutexLock lock(&mu_);
    return reports_;
  }
  // Threads in the order of their StartThread.
  std::vector<int> started() const {
    absl::MutexLock lock(&mu_);
    return started_;
  }

 private:
  const BucketTable table_;
  const Model model_;
  mutable absl::Mutex mu_;
  bool keeps_to_thread_ ABSL_GUARDED_BY(mu_) = false;
  bool holding_ ABSL_GUARDED_BY(mu_) = false;
  bool holding_here_ ABSL_GUARDED_BY(mu_) = false;
  FakeClock* clock_ ABSL_GUARDED_BY(mu_) = nullptr;
  absl::Duration run_time_ ABSL_GUARDED_BY(mu_);
  int first_thread_runs_ ABSL_GUARDED_BY(mu_) = 0;
  int overlaps_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<int> held_ ABSL_GUARDED_BY(mu_);  // threads with a run at the gate
  std::vector<int> started_ ABSL_GUARDED_BY(mu_);
  std::vector<RunRecord> runs_ ABSL_GUARDED_BY(mu_);
  std::vector<BatchReport> reports_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
