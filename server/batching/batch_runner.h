// What the batcher asks of whoever runs its batches: which bucket, and a run.
// Implemented by models::ModelVersion and by tests/fakes.
//
// Each method says which threads call it. The runner outlives the batcher that
// it is given to. Errors come back as the status of a run's Outcome.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tensor/run_result.h"
#include "tensor/shape_bucket.h"
#include "tensor/tensor.h"

namespace stoker {

// One run that gave an answer.
struct BatchReport {
  int bucket = -1;
  std::string_view tier;
  int requests = 0;
  int64_t rows = 0;  // padding excluded
  absl::Duration assemble, run, split;
};

class BatchRunner {
 public:
  virtual ~BatchRunner() = default;

  struct Outcome {
    absl::StatusOr<RunResult> result = absl::UnknownError("not run");
    std::string_view tier = "eager";
    // What ran, where it has a name and is of no bucket; counted from the last
    // bucket on.
    int form = -1;
  };

  // The bucket that a batch of these sizes is padded to; -1: run as it is.
  // Pure, callable from any thread.
  virtual int Match(absl::Span<const int64_t> sizes) const = 0;
  virtual int bucket_count() const = 0;
  virtual const ShapeBucket& bucket(int index) const = 0;

  // Called once on each device thread before its first Run.
  virtual void StartThread(int thread) = 0;
  // Calls `wait`, which returns when device thread `thread` has something to
  // run again: what the runs compute with is not needed before. On that thread.
  virtual void Idle(int /*thread*/, absl::FunctionRef<void()> wait) { wait(); }
  // Memory that the inputs of device thread `thread`'s runs are put together
  // in. On that thread.
  virtual Buffer NewBuffer(int /*thread*/, size_t bytes) {
    return Buffer(bytes);
  }
  // Runs on device thread `thread`. Inputs are 64-byte aligned, padded to the
  // bucket, and valid until Run returns: outputs must own their memory.
  virtual Outcome Run(int thread, int bucket,
                      absl::Span<const Tensor> inputs) = 0;

  // Whether a run in `bucket` computes on the thread that calls it alone,
  // whichever that is: only then RunHere may be called. From any thread.
  virtual bool KeepsToThread(int bucket) const = 0;
  // As Run, on the calling thread in device thread 0's stead: never while that
  // one runs, never two at once.
  virtual Outcome RunHere(int bucket, absl::Span<const Tensor> inputs) = 0;

  // Called after each run that gave an answer, on the thread that made it,
  // before the on_done of its tasks.
  virtual void OnBatch(const BatchReport& /*report*/) {}
};

}  // namespace stoker
