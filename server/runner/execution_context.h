// Per-device-thread state of runs: the number of compute threads, on a GPU its
// streams and its staging memory. One per device thread; created and used on
// that thread only.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/functional/function_ref.h"
#include "tensor/tensor.h"

namespace stoker {

class FreeCores;

class ExecutionContext {
 public:
  // Sets the calling thread's compute threads (OpenMP, ATen). `free_cores`
  // outlives the context; null: there are always cores for all threads.
  static std::unique_ptr<ExecutionContext> CreateCpu(
      int threads, const FreeCores* free_cores = nullptr);
  virtual ~ExecutionContext() = default;
  // Of the run that is made now, or was made last.
  int threads() const { return threads_; }

  // That a run may be given: fewer than all where runs take what has a core.
  int fewest_threads() const { return fewest_threads_; }
  // Whether a run that began now would be given all.
  virtual bool HasAllThreads() const { return true; }
  // Runs that `work` makes are given no more than the fewest.
  virtual void WithFewestThreads(absl::FunctionRef<void()> work) { work(); }

  // An executable's run begins: with as many of the threads as have a core now.
  virtual void BeginRun() {}

  // Calls `wait` while the other compute threads sleep. Left alone, OpenMP's
  // threads spin for milliseconds after each run, on cores that clients, other
  // models and the server's own threads could use. `wait` must not run a model.
  virtual void Idle(absl::FunctionRef<void()> wait) { wait(); }

  // Calls `run`, for which memory that libtorch hands out on this thread is
  // full of ones: NaN, or -1. Left alone, it holds what was freed last, which
  // may be the right answer of an earlier run, and code that leaves a part of
  // its result unwritten would pass for right. On a GPU memory is left alone.
  virtual void WithPoisonedMemory(absl::FunctionRef<void()> run) { run(); }

  // Memory for a run's inputs: where the device copies from it, such that the
  // copy is the only one.
  virtual Buffer NewBuffer(size_t bytes) { return Buffer(bytes); }

 protected:
  // Of the calling thread (OpenMP, ATen).
  static void UseThreads(int threads);

  // Tests of rooms above derive a context that sets nothing.
  explicit ExecutionContext(int threads) : ExecutionContext(threads, threads) {}
  ExecutionContext(int threads, int fewest_threads)
      : threads_(threads), fewest_threads_(fewest_threads) {}

  int threads_;

 private:
  const int fewest_threads_;
};

}  // namespace stoker
