// What a step of a pipeline runs in: a version of a model, or a tokenizer.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "batching/infer_task.h"
#include "repository/model_spec.h"

namespace stoker {

class StepModel {
 public:
  virtual ~StepModel() = default;

  virtual const ModelSpec& spec() const = 0;
  // As Batcher::Enqueue: takes the task on OK, when it may have ended already.
  virtual absl::Status Submit(std::unique_ptr<InferTask>& task) = 0;
  // Ends cancelled tasks that are still queued.
  virtual void SweepCancelled() = 0;
  // In the model's own figures, once for each task.
  virtual void RecordSuccess(const InferResult& /*result*/, int64_t /*rows*/,
                             absl::Duration /*total*/) {}
  virtual void RecordFailure(const absl::Status& /*status*/, bool /*queued*/,
                             absl::Duration /*total*/) {}
};

}  // namespace stoker
