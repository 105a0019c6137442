// A program in a form that can run: eager (nativert) or compiled (AOTInductor).
//
// Thread-safety: immutable after load and shared by shared_ptr, but an
// AotExecutable runs on one thread at a time (its container is
// single-threaded); callers serialise Run per Executable, or open one per
// device thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runner/execution_context.h"
#include "tensor/run_result.h"
#include "tensor/tensor.h"

namespace stoker {

class Executable {
 public:
  virtual ~Executable() = default;

  // Inputs in the program's flat order, contiguous, 64-byte aligned where a
  // compiled form may run. The caller has checked dtypes and shapes against the
  // model and the bucket. INVALID_ARGUMENT: the values were refused, nothing
  // was computed (eager can't say which row); RESOURCE_EXHAUSTED: out of
  // memory; DATA_LOSS: the program's file was changed under it; INTERNAL:
  // anything else.
  virtual absl::StatusOr<RunResult> Run(ExecutionContext& context,
                                        absl::Span<const Tensor> inputs) = 0;

  // Whether Run is over when it returns, and computes on no more threads than
  // its context has.
  virtual bool KeepsToContext() const = 0;

  // Whether Run is for inputs of these shapes; their data is not read. Any are
  // right for a form that the caller has matched to a bucket.
  virtual bool Takes(absl::Span<const Tensor> /*inputs*/) const { return true; }

  // Of the host's memory, what it takes besides what it borrows and what a run
  // takes: a copy of the weights, or its code.
  virtual int64_t host_bytes() const { return 0; }

  // "eager", "dynamic", "aot" or "graph": the value of the metrics' label
  // `tier`.
  virtual std::string_view tier() const = 0;
};

}  // namespace stoker
