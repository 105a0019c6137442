// An ExecutableLoader without torch whose programs answer their inputs, in no
// time, as eager and as compiled artifacts; and some that can't be opened:
//
//   FakeProgramLoader loader;
//   loader.Refuse("/models/rows/2/model.pt2");
//   loader.Refuse("/models/rows/2/model.pt2", absl::UnavailableError("later"));
//   loader.Admit("/models/rows/2/model.pt2");
//
// Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/fakes/fake_executable.h"
#include "tests/fakes/fake_loader.h"

namespace stoker {

class FakeProgramLoader : public TorchlessLoader {
 public:
  explicit FakeProgramLoader(FakeExecutable::Script compiled = AsTheyCame)
      : compiled_(std::move(compiled)) {}

  void Refuse(const std::string& program,
              const absl::Status& why = absl::InternalError("not a program"))
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    refused_[program] = why;
  }
  void Admit(const std::string& program) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    refused_.erase(program);
  }

  absl::StatusOr<std::shared_ptr<Executable>> OpenEager(
      const std::string& program,
      std::shared_ptr<WeightStore> /*weights*/) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    if (const auto why = refused_.find(program); why != refused_.end()) {
      return why->second;
    }
    return std::make_shared<FakeExecutable>("eager", AsTheyCame);
  }
  absl::StatusOr<std::shared_ptr<Executable>> OpenAot(
      const std::string& /*entry_folder*/,
      std::shared_ptr<WeightStore> /*weights*/) override {
    return std::make_shared<FakeExecutable>("aot", compiled_);
  }

 private:
  const FakeExecutable::Script compiled_;
  absl::Mutex mu_;
  std::map<std::string, absl::Status> refused_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
