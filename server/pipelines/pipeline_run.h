// One request on its way through a pipeline: submits each step when its inputs
// are there, and hands on what it made.
//
// It has no thread: a step's end goes on with the next steps, on the thread
// that the step ended on. One thread at a time does so; a step that ends
// meanwhile is left to it. Tensors are handed on as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "batching/infer_task.h"
#include "pipelines/pipeline_graph.h"
#include "pipelines/step_model.h"
#include "pipelines/step_tensors.h"

namespace stoker {

class PipelineRun : public std::enable_shared_from_this<PipelineRun> {
 public:
  // Told of each step that ended, in the pipeline's figures.
  using OnStep = std::function<void(size_t step, const absl::Status& status,
                                    absl::Duration total)>;

  // The task ends in exactly one on_done: before Start returns, where all steps
  // do, else on the thread that the last of them ends on. The first step that
  // fails ends it, with that step's code and "step '<name>': " before its
  // message; those that wait are cancelled then. `models`: of each step. Its
  // steps get the task's deadline, timeout, priority and `cancelled`. What its
  // tensors take is asked for of the task's memory until nobody needs them.
  // `spec`: the pipeline's own. `clock` outlives the run.
  static void Start(std::shared_ptr<const ModelSpec> spec,
                    std::shared_ptr<const PipelineGraph> graph,
                    std::vector<std::shared_ptr<StepModel>> models,
                    std::unique_ptr<InferTask> task, Clock& clock,
                    OnStep on_step);

  // For Start.
  PipelineRun(std::shared_ptr<const ModelSpec> spec,
              std::shared_ptr<const PipelineGraph> graph,
              std::vector<std::shared_ptr<StepModel>> models,
              std::unique_ptr<InferTask> task, Clock& clock, OnStep on_step);

 private:
  using Result = absl::StatusOr<InferResult>;
  struct Ended {
    size_t step;
    Result result;
  };
  struct Step {
    size_t missing = 0;  // tensors
    MonotonicTime submitted;
    int64_t rows = 1;
    size_t held = 0;  // bytes, for its outputs
  };
  struct Passed {
    PassedTensor tensor;
    int readers = 0;  // left
    size_t held = 0;
  };

  // Of whoever ends a step, or Start.
  void GoOn(std::optional<Ended> ended, bool may_run_here)
      ABSL_LOCKS_EXCLUDED(mu_);

  // --- of the one thread that goes on ---

  void Begin();
  void Finish(Ended ended);
  // What the step made.
  absl::Status HandOn(size_t step, InferResult& result);
  void Made(int tensor, PassedTensor passed, size_t held);
  void Took(int tensor);
  void SubmitReady(bool may_run_here);
  absl::Status Submit(size_t step, bool may_run_here, bool alone);
  absl::StatusOr<StepInputs> InputsOf(size_t step) const;
  void Note(size_t step, const InferResult& result, absl::Duration total);
  void Fail(size_t step, const absl::Status& status);
  absl::Status Hold(size_t bytes);
  void LetGo(size_t bytes);
  Result Answer();

  const std::shared_ptr<const ModelSpec> spec_;
  const std::shared_ptr<const PipelineGraph> graph_;
  const std::vector<std::shared_ptr<StepModel>> models_;
  Clock& clock_;
  const OnStep on_step_;
  const std::unique_ptr<InferTask> task_;

  std::vector<Step> steps_;
  std::vector<std::optional<Passed>> tensors_;
  std::vector<size_t> ready_;
  size_t running_ = 0;
  absl::Status failed_;
  InferResult answer_;

  absl::Mutex mu_;
  bool going_on_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Ended> ended_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
