// An ExecutableLoader without torch: every program opens as a function of the
// test's, as "eager", and nothing opens as a compiled artifact.
//
//   FakeLoader loader([](absl::Span<const Tensor> inputs) {
//     return RunResult{.outputs = {inputs[0]}};
//   });
//   loader.Hold();              // runs wait from now on ...
//   loader.BlockUntilHeld(1);   // ... one does
//   loader.Release();           // and all go on
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "runner/executable_loader.h"
#include "tests/fakes/fake_executable.h"

namespace stoker {

// Without torch there are no weights, and contexts set nothing.
class TorchlessLoader : public ExecutableLoader {
 public:
  std::unique_ptr<ExecutionContext> NewContext(int threads) override {
    return std::make_unique<FakeExecutionContext>(threads);
  }
  absl::StatusOr<std::shared_ptr<WeightStore>> MapWeights(
      const std::string& /*pt2_path*/) override {
    return std::shared_ptr<WeightStore>();
  }
};

class FakeLoader : public TorchlessLoader {
 public:
  explicit FakeLoader(FakeExecutable::Script script)
      : eager_(std::make_shared<FakeExecutable>(
            "eager", [this, script = std::move(script)](
                         absl::Span<const Tensor> inputs) {
              Wait();
              return script(inputs);
            })) {}

  FakeExecutable& eager() { return *eager_; }

  void Hold() ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    holding_ = true;
  }
  void BlockUntilHeld(int runs) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    const auto held = [this, runs] {
      mu_.AssertReaderHeld();
      return held_ >= runs;
    };
    mu_.Await(absl::Condition(&held));
  }
  void Release() ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    holding_ = false;
  }

  absl::StatusOr<std::shared_ptr<Executable>> OpenEager(
      const std::string& /*pt2_path*/,
      std::shared_ptr<WeightStore> /*weights*/) override {
    return eager_;
  }
  absl::StatusOr<std::shared_ptr<Executable>> OpenAot(
      const std::string& entry_folder,
      std::shared_ptr<WeightStore> /*weights*/) override {
    return absl::FailedPreconditionError("no artifacts here: " + entry_folder);
  }

 private:
  void Wait() ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    const auto open = [this] {
      mu_.AssertReaderHeld();
      return !holding_;
    };
    ++held_;
    mu_.Await(absl::Condition(&open));
    --held_;
  }

  absl::Mutex mu_;
  bool holding_ ABSL_GUARDED_BY(mu_) = false;
  int held_ ABSL_GUARDED_BY(mu_) = 0;
  const std::shared_ptr<FakeExecutable> eager_;
};

}  // namespace stoker
