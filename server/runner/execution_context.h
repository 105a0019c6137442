// Per-device-thread state of runs: the number of compute threads, on a GPU its
// streams and its staging memory. One per device thread; created and used on
// that thread only.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/functional/function_ref.h"
#include "tensor/tensor.h"

namespace stoker {

class ExecutionContext {
 public:
  // Sets the calling thread's compute threads (OpenMP, ATen).
  static std::unique_ptr<ExecutionContext> CreateCpu(int threads);
  virtual ~ExecutionContext() = default;
  int threads() const { return threads_; }

  // Calls `wait` while the other compute threads sleep. Left alone, OpenMP's
  // threads spin for milliseconds after each run, on cores that clients, other
  // models and the server's own threads could use. `wait` must not run a model.
  virtual void Idle(absl::FunctionRef<void()> wait) { wait(); }

  // Memory for a run's inputs: where the device copies from it, such that the
  // copy is the only one.
  virtual Buffer NewBuffer(size_t bytes) { return Buffer(bytes); }

 protected:
  // Of the calling thread (OpenMP, ATen).
  static void UseThreads(int threads);

  // Tests of rooms above derive a context that sets nothing.
  explicit ExecutionContext(int threads) : threads_(threads) {}

 private:
  const int threads_;
};

}  // namespace stoker
