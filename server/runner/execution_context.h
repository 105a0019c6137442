// Per-device-thread state of runs: the number of compute threads. One per
// device thread; created and used on that thread only.
#pragma once

#include <memory>

#include "absl/status/statusor.h"

namespace stoker {

class ExecutionContext {
 public:
  // Sets the calling thread's compute threads (OpenMP, ATen).
  static std::unique_ptr<ExecutionContext> CreateCpu(int threads);
  int threads() const { return threads_; }

 protected:
  // Tests of rooms above derive a context that sets nothing.
  explicit ExecutionContext(int threads) : threads_(threads) {}

 private:
  const int threads_;
};

}  // namespace stoker
