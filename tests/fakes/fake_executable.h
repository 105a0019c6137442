// An Executable that does what a test says: scripted results, a latency on a
// FakeClock, failures. And a context for it, which sets nothing.
//
//   FakeExecutable candidate("aot", [](absl::Span<const Tensor> inputs) {
//     return RunResult{.outputs = {inputs[0]}};
//   });
//   candidate.TakeTime(clock, absl::Milliseconds(3));
//   candidate.FailNext(1, absl::ResourceExhaustedError("out of memory"));
//
// Thread-safe; the script runs outside of any lock.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "runner/executable.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/tensors.h"

namespace stoker {

class FakeExecutionContext : public ExecutionContext {
 public:
  explicit FakeExecutionContext(int threads = 1)
      : FakeExecutionContext(threads, threads) {}
  FakeExecutionContext(int threads, int fewest)
      : ExecutionContext(threads, fewest) {}

  void WithFewestThreads(absl::FunctionRef<void()> work) override {
    const int all = std::exchange(threads_, fewest_threads());
    work();
    threads_ = all;
  }

  void WithPoisonedMemory(absl::FunctionRef<void()> run) override {
    poisoned_ = true;
    run();
    poisoned_ = false;
  }
  // Whether a run is being made with poisoned memory.
  bool poisoned() const { return poisoned_; }

 private:
  bool poisoned_ = false;
};

// The script of a program that answers its inputs, floats all of them.
inline absl::StatusOr<RunResult> AsTheyCame(absl::Span<const Tensor> inputs) {
  RunResult result;
  for (const Tensor& input : inputs) {
    result.outputs.push_back(MakeTensor<float>(DataType::kFp32, input.shape,
                                               ValuesOf<float>(input)));
  }
  return result;
}

class FakeExecutable : public Executable {
 public:
  using Script =
      std::function<absl::StatusOr<RunResult>(absl::Span<const Tensor>)>;

  FakeExecutable(std::string tier, Script script)
      : tier_(std::move(tier)), script_(std::move(script)) {}

  // Every run from now on moves `clock`, which must outlive this, by `latency`.
  void TakeTime(FakeClock& clock, absl::Duration latency)
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    clock_ = &clock;
    latency_ = alone_ = latency;
  }

  // The same, but of runs on one thread `alone`.
  void TakeTime(FakeClock& clock, absl::Duration latency, absl::Duration alone)
      ABSL_LOCKS_EXCLUDED(mu_) {
    TakeTime(clock, latency);
    const absl::MutexLock lock(&mu_);
    alone_ = alone;
  }

  // The next `runs` runs end with `status`, which is not OK.
  void FailNext(int runs, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    failures_ = runs;
    failure_ = std::move(status);
  }

  // Until then it takes whatever comes.
  void OnlyTake(std::function<bool(absl::Span<const Tensor>)> takes)
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    takes_ = std::move(takes);
  }

  // Runs so far, failed ones included.
  int runs() const ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    return runs_;
  }

  absl::StatusOr<RunResult> Run(ExecutionContext& context,
                                absl::Span<const Tensor> inputs) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    FakeClock* clock = nullptr;
    absl::Duration latency;
    absl::Status failure;
    {
      const absl::MutexLock lock(&mu_);
      ++runs_;
      clock = clock_;
      latency = context.threads() == 1 ? alone_ : latency_;
      if (failures_ > 0) {
        --failures_;
        failure = failure_;
      }
    }
    if (clock != nullptr) clock->Advance(latency);
    if (!failure.ok()) return failure;
    return script_(inputs);
  }

  bool KeepsToContext() const override { return true; }
  bool Takes(absl::Span<const Tensor> inputs) const override
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    return takes_ == nullptr || takes_(inputs);
  }
  std::string_view tier() const override { return tier_; }

 private:
  const std::string tier_;
  const Script script_;
  mutable absl::Mutex mu_;
  std::function<bool(absl::Span<const Tensor>)> takes_ ABSL_GUARDED_BY(mu_);
  FakeClock* clock_ ABSL_GUARDED_BY(mu_) = nullptr;
  absl::Duration latency_ ABSL_GUARDED_BY(mu_), alone_ ABSL_GUARDED_BY(mu_);
  int failures_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  int runs_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace stoker
