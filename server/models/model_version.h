// One version of one model, as it serves: takes requests, has a batcher put
// them together, and runs them with the best executable that is there
// (executable_tiers.h). Its warm-up (warmup.h) makes those, on another thread.
//
// Thread-safe. Create it, Load it, have its warmup() run, Stop it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "batching/batch_layout.h"
#include "batching/batch_runner.h"
#include "batching/batcher.h"
#include "models/device_threads.h"
#include "models/executable_tiers.h"
#include "models/host_memory.h"
#include "models/version_deps.h"
#include "models/version_report.h"
#include "models/version_stats.h"
#include "models/warmup.h"
#include "planning/placement.h"
#include "planning/warmup_plan.h"
#include "repository/model_spec.h"
#include "runner/execution_context.h"
#include "tensor/shape_bucket.h"

namespace stoker {

// INVALID_ARGUMENT: a size outside the program's bounds; OUT_OF_RANGE: fits no
// bucket of `table` and the model rejects that.
absl::Status CheckSizes(const ModelSpec& spec, const BucketTable& table,
                        const DimensionSizes& sizes);

class ModelVersion final : private BatchRunner {
 public:
  ModelVersion(std::shared_ptr<const ModelSpec> spec, const VersionDeps& deps);
  // Stop(now) unless stopped already. The warm-up's thread has ended.
  ~ModelVersion() override;

  const ModelSpec& spec() const { return *spec_; }
  const std::shared_ptr<const ModelSpec>& shared_spec() const { return spec_; }
  VersionStats& stats() { return *stats_; }
  const std::shared_ptr<VersionStats>& shared_stats() const { return stats_; }
  const Placement& placement() const { return deps_.placement; }
  const Toolchain& toolchain() const { return deps_.toolchain; }

  // Warmup::Load, where the CPUs can be had that model.yaml confines it to.
  absl::Status Load();
  // The rest of it.
  Warmup& warmup() { return warmup_; }

  // As ModelHandle's.
  absl::Status Submit(std::unique_ptr<InferTask>& task);
  void SweepCancelled() { batcher_.SweepCancelled(); }

  // The warm-up's methods return soon, wherever they are.
  void StopWarmup() { stop_.request_stop(); }
  // StopWarmup; refuses new tasks, runs queued ones until `deadline`.
  void Stop(MonotonicTime deadline);

  // When somebody submitted something last, or it was made.
  MonotonicTime last_asked() const {
    return MonotonicTime::FromNanoseconds(last_asked_.load());
  }
  HostMemory host_memory() const { return tiers_.host_memory(); }
  // In the plan's order.
  std::vector<BucketStatus> Buckets() const;
  // "3 of 8 buckets settled; batch=1,tokens=64: build, 12 s"; empty when all
  // are.
  std::string ProgressText() const;
  WarmupProgress progress() const { return tiers_.progress(); }
  // "cpu", "cuda:0, cuda:1".
  std::string DeviceNames() const;

 private:
  // BatchRunner.
  int Match(absl::Span<const int64_t> sizes) const override;
  int bucket_count() const override;
  const ShapeBucket& bucket(int index) const override;
  void StartThread(int thread) override;
  void Idle(int thread, absl::FunctionRef<void()> wait) override;
  Buffer NewBuffer(int thread, size_t bytes) override;
  Outcome Run(int thread, int bucket, absl::Span<const Tensor> inputs) override;
  bool KeepsToThread(int bucket) const override;
  Outcome RunHere(int bucket, absl::Span<const Tensor> inputs) override;
  void OnBatch(const BatchReport& report) override;

  // INVALID_ARGUMENT when a program with unlisted operators can't run here.
  absl::Status CheckIsolated() const;
  // Where the instances run, for the log.
  std::string WhereItRuns() const;

  // Constant after construction.
  const std::shared_ptr<const ModelSpec> spec_;
  const VersionDeps deps_;
  const Labels labels_;
  const absl::StatusOr<CpuSets> cpus_;
  const int compute_threads_;  // per device thread
  const BucketTable table_;
  const std::vector<std::string> input_names_;
  const std::vector<WarmupStep> plan_;
  const BatchLayout layout_;
  const MadeUpInputs made_up_;

  // Own synchronisation.
  std::stop_source stop_;  // of the warm-up
  std::atomic<int64_t> last_asked_;
  const std::shared_ptr<VersionStats> stats_;
  ExecutableTiers tiers_;

  // Each element is used by its device thread only, after StartThread.
  std::vector<std::unique_ptr<ExecutionContext>> contexts_;

  Batcher batcher_;  // its threads use everything above
  const DeviceThreads device_threads_;
  Warmup warmup_;
};

}  // namespace stoker
