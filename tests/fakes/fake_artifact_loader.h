// An ExecutableLoader whose artifacts say themselves how they run: model.so is
// JSON, {"tier": "dynamic", "milliseconds": 5, "least": 2}. Every form answers
// its inputs, and takes that time on a FakeClock; it takes inputs whose sizes
// are all `least` or more.
//
// Thread-safe.
#pragma once

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_executable.h"
#include "tests/fakes/fake_loader.h"

namespace stoker {

class FakeArtifactLoader : public TorchlessLoader {
 public:
  static constexpr absl::Duration kEagerRun = absl::Milliseconds(20);

  explicit FakeArtifactLoader(FakeClock& clock) : clock_(clock) {}

  // What was opened as an artifact, in order.
  std::vector<std::shared_ptr<FakeExecutable>> opened() const
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    return opened_;
  }
  // What eager says to everything from now on; OK: it answers.
  void EagerSays(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    eager_says_ = std::move(status);
  }

  absl::StatusOr<std::shared_ptr<Executable>> OpenEager(
      const std::string& /*pt2_path*/,
      std::shared_ptr<WeightStore> /*weights*/) override {
    return Make(
        "eager", kEagerRun, 0,
        [this](absl::Span<const Tensor> inputs) -> absl::StatusOr<RunResult> {
          const absl::MutexLock lock(&mu_);
          if (!eager_says_.ok()) return eager_says_;
          return AsTheyCame(inputs);
        });
  }
  absl::StatusOr<std::shared_ptr<Executable>> OpenAot(
      const std::string& entry_folder,
      std::shared_ptr<WeightStore> /*weights*/) override {
    std::ifstream file(entry_folder + "/model.so");
    const auto how = nlohmann::json::parse(file);
    auto executable = Make(
        how.at("tier"), absl::Milliseconds(how.at("milliseconds").get<int>()),
        how.value("least", 0));
    const absl::MutexLock lock(&mu_);
    opened_.push_back(executable);
    return executable;
  }

 private:
  std::shared_ptr<FakeExecutable> Make(
      const std::string& tier, absl::Duration run, int64_t least,
      FakeExecutable::Script script = AsTheyCame) {
    auto executable = std::make_shared<FakeExecutable>(tier, std::move(script));
    executable->TakeTime(clock_, run);
    executable->OnlyTake([least](absl::Span<const Tensor> inputs) {
      return std::all_of(
          inputs.begin(), inputs.end(), [least](const Tensor& input) {
            return std::all_of(input.shape.begin(), input.shape.end(),
                               [least](int64_t size) { return size >= least; });
          });
    });
    return executable;
  }

  FakeClock& clock_;
  mutable absl::Mutex mu_;
  std::vector<std::shared_ptr<FakeExecutable>> opened_ ABSL_GUARDED_BY(mu_);
  absl::Status eager_says_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
