// Work for a version's device threads, done between two batches: opening,
// checking and timing what may serve there. Knows nothing of what the work is.
//
// Thread-safe, but not for the device threads themselves: Run blocks.
#pragma once

#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "batching/batcher.h"
#include "runner/execution_context.h"

namespace stoker {

class DeviceThreads {
 public:
  using Contexts = std::vector<std::unique_ptr<ExecutionContext>>;

  // `contexts`: by device thread, each touched on its thread only. Both outlive
  // this object.
  DeviceThreads(Batcher& batcher, const Contexts& contexts,
                std::stop_token stop)
      : batcher_(batcher), contexts_(contexts), stop_(std::move(stop)) {}

  int count() const { return static_cast<int>(contexts_.size()); }

  // What `work` returned, on device thread `thread`, when it is through.
  // CANCELLED when stopped before it began; work that has begun is not cut
  // short, so let it be short.
  absl::Status Run(
      int thread,
      absl::FunctionRef<absl::Status(ExecutionContext& context)> work) const;

 private:
  Batcher& batcher_;
  const Contexts& contexts_;
  const std::stop_token stop_;
};

}  // namespace stoker
