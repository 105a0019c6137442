// A GPU that isn't there: an ExecutableLoader whose artifacts run as a function
// of the test's for a time on a FakeClock, and can be captured as graphs that
// take another time. What becomes of each capture is the test's to say.
//
//   FakeGpuLoader gpu(clock, script);
//   gpu.OnCapture([](const Shape& shape) { return CapturedAs{...}; });
//
// Thread-safe; outlives what it opened.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runner/executable_loader.h"
#include "runner/spare_memory.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_executable.h"
#include "tests/fakes/fake_loader.h"

namespace stoker {

struct CapturedAs {
  absl::Status status;  // of the capture
  absl::Duration run = absl::Milliseconds(5);
  int64_t bytes = 100;
};

class FakeGpuLoader : public TorchlessLoader {
 public:
  using Script = FakeExecutable::Script;
  using CaptureScript = std::function<CapturedAs(const Shape& first_input)>;

  FakeGpuLoader(FakeClock& clock, Script script)
      : clock_(clock), script_(std::move(script)) {}

  static constexpr absl::Duration kCompiledRun = absl::Milliseconds(10);

  void OnCapture(CaptureScript capture) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    capture_ = std::move(capture);
  }
  // What opening artifacts ends with from now on.
  void OpenWith(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    open_ = std::move(status);
  }
  // The first input's shape of each capture so far.
  std::vector<Shape> captured() const ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    return captured_;
  }
  // What each capture was given.
  std::vector<std::vector<std::vector<Tensor>>> samples() const
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    return samples_;
  }
  // The graphs that are there, the tests' own references aside.
  std::vector<std::weak_ptr<FakeExecutable>> graphs() const
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    return graphs_;
  }
  // Likewise the compiled forms.
  std::vector<std::weak_ptr<FakeExecutable>> compiled() const
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    return compiled_;
  }

  absl::StatusOr<std::shared_ptr<Executable>> OpenEager(
      const std::string& /*pt2_path*/,
      std::shared_ptr<WeightStore> /*weights*/) override {
    return Make("eager", 2 * kCompiledRun);
  }
  absl::StatusOr<std::shared_ptr<Executable>> OpenAot(
      const std::string& /*entry_folder*/,
      std::shared_ptr<WeightStore> /*weights*/) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    {
      const absl::MutexLock lock(&mu_);
      if (!open_.ok()) return open_;
    }
    auto compiled = Make("aot", kCompiledRun);
    const absl::MutexLock lock(&mu_);
    compiled_.push_back(compiled);
    return compiled;
  }
  SpareMemory* spare_memory() override { return &spares_; }
  bool captures() const override { return true; }
  absl::StatusOr<CapturedGraph> Capture(
      std::shared_ptr<Executable> compiled, ExecutionContext& /*context*/,
      absl::Span<const std::vector<Tensor>> samples, int64_t max_bytes) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    CaptureScript capture;
    {
      const absl::MutexLock lock(&mu_);
      captured_.push_back(samples[0][0].shape);
      samples_.emplace_back(samples.begin(), samples.end());
      capture = capture_;
    }
    if (compiled->tier() != "aot") return absl::InternalError("not compiled");
    const CapturedAs as = capture ? capture(samples[0][0].shape) : CapturedAs{};
    if (!as.status.ok()) return as.status;
    if (as.bytes > max_bytes) {
      return absl::ResourceExhaustedError("more than is left");
    }
    auto graph = Make("graph", as.run);
    const absl::MutexLock lock(&mu_);
    graphs_.push_back(graph);
    return CapturedGraph{graph, as.bytes};
  }

 private:
  std::shared_ptr<FakeExecutable> Make(const std::string& tier,
                                       absl::Duration run) {
    auto executable = std::make_shared<FakeExecutable>(tier, script_);
    executable->TakeTime(clock_, run);
    return executable;
  }

  FakeClock& clock_;
  const Script script_;
  SpareMemory spares_;
  mutable absl::Mutex mu_;
  absl::Status open_ ABSL_GUARDED_BY(mu_);
  CaptureScript capture_ ABSL_GUARDED_BY(mu_);
  std::vector<Shape> captured_ ABSL_GUARDED_BY(mu_);
  std::vector<std::vector<std::vector<Tensor>>> samples_ ABSL_GUARDED_BY(mu_);
  std::vector<std::weak_ptr<FakeExecutable>> graphs_ ABSL_GUARDED_BY(mu_);
  std::vector<std::weak_ptr<FakeExecutable>> compiled_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
