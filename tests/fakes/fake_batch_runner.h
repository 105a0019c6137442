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
#include "batching/batcher.h"
#include "tensor/shape_bucket.h"
#include "tensor/tensor.h"

namespace stoker {

class FakeBatchRunner : public BatchRunner {
 public:
  using Model = std::function<Outcome(int bucket, absl::Span<const Tensor>)>;

  struct RunRecord {
    int thread;
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
      held_.insert(thread);
      const auto may_pass = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
        return !holding_ || held_.count(thread) == 0;
      };
      mu_.Await(absl::Condition(&may_pass));
      held_.erase(thread);
    }
    return model_(bucket, inputs);
  }

  void OnBatch(const BatchReport& report) override {
    absl::MutexLock lock(&mu_);
    reports_.push_back(report);
  }

  // Runs that begin from now on wait at the gate.
  void Hold() {
    absl::MutexLock lock(&mu_);
    holding_ = true;
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
  bool holding_ ABSL_GUARDED_BY(mu_) = false;
  std::set<int> held_ ABSL_GUARDED_BY(mu_);  // threads with a run at the gate
  std::vector<int> started_ ABSL_GUARDED_BY(mu_);
  std::vector<RunRecord> runs_ ABSL_GUARDED_BY(mu_);
  std::vector<BatchReport> reports_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
