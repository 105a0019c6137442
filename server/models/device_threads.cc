#include "models/device_threads.h"

#include "base/status_macros.h"

namespace stoker {

absl::Status DeviceThreads::Run(
    int thread,
    absl::FunctionRef<absl::Status(ExecutionContext& context)> work) const {
  if (stop_.stop_requested()) return absl::CancelledError("stopping");
  absl::Status done = absl::CancelledError("stopping");
  RETURN_IF_ERROR(batcher_.RunOnDeviceThread(thread, [&] {
    if (stop_.stop_requested()) return;  // while it waited for its turn
    done = work(*contexts_[static_cast<size_t>(thread)]);
  }));
  return done;
}

}  // namespace stoker
