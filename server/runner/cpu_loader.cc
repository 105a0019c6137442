// The loader of libtorch_cpu's executables.
#include <c10/util/Logging.h>
#include <torch/version.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runner/aot_executable.h"
#include "runner/checked_kernels.h"
#include "runner/eager_executable.h"
#include "runner/embedding_bag.h"
#include "runner/executable_loader.h"
#include "runner/grouped_mm.h"
#include "runner/integer_division.h"
#include "runner/number_operators.h"
#include "runner/quantised_operators.h"
#include "runner/static_kernels.h"
#include "runner/torch_errors.h"
#include "runner/vision_operators.h"
#include "runner/weight_store.h"

namespace stoker {
namespace {

class CpuLoader : public ExecutableLoader {
 public:
  explicit CpuLoader(const FreeCores* free_cores) : free_cores_(free_cores) {}

  std::unique_ptr<ExecutionContext> NewContext(int threads) override {
    return ExecutionContext::CreateCpu(threads, free_cores_);
  }

  absl::StatusOr<std::shared_ptr<WeightStore>> MapWeights(
      const std::string& pt2_path) override {
    return WeightStore::Map(pt2_path);
  }

  Int8Linears* UseInt8(WeightStore& weights) override {
    weights.UseInt8();
    return &weights;
  }

  int64_t PackedBytes(const WeightStore& weights) const override {
    return weights.packed_bytes();
  }

  absl::StatusOr<std::shared_ptr<Executable>> OpenEager(
      const std::string& pt2_path,
      std::shared_ptr<WeightStore> /*weights*/) override {
    const absl::MutexLock lock(&mu_);
    return EagerExecutable::Open(pt2_path);
  }

  absl::StatusOr<std::shared_ptr<Executable>> OpenAot(
      const std::string& entry_folder,
      std::shared_ptr<WeightStore> weights) override {
    const absl::MutexLock lock(&mu_);
    return AotExecutable::Open(entry_folder, std::move(weights));
  }

 private:
  const FreeCores* const free_cores_;
  // torch's loaders race with each other (pytorch #194128).
  absl::Mutex mu_;
};

}  // namespace

std::unique_ptr<ExecutableLoader> MakeCpuLoader(const FreeCores* free_cores) {
  KeepErrorsCheap();
  MakeTruncatedDivisionSafe();
  MakeEmbeddingBagsSafe();
  CheckKernelsArguments();
  RegisterVisionOperators();
  RegisterGroupedMm();
  RegisterQuantisedOperators();
  RegisterNumberOperators();
  UseDispatchedKernelsOnly();
  // nativert warns of every operator that it has no kernel of its own for, at
  // each open. Who asks torch for more by its own variable gets it.
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);
  c10::initLogging();
  return std::make_unique<CpuLoader>(free_cores);
}

}  // namespace stoker
