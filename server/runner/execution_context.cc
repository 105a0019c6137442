#include "runner/execution_context.h"

#include <ATen/Parallel.h>

#include <atomic>

// What gcc calls for "#pragma omp parallel", from the libgomp that torch
// brings: with clang, the pragma would bring a second OpenMP with threads of
// its own.
extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads,
                   unsigned flags);
int omp_get_thread_num();
}

namespace stoker {
namespace {

class CpuExecutionContext : public ExecutionContext {
 public:
  explicit CpuExecutionContext(int threads) : ExecutionContext(threads) {}

  void Idle(absl::FunctionRef<void()> wait) override {
    if (threads() == 1) return wait();
    Region region{wait};
    GOMP_parallel(&Region::Body, &region, static_cast<unsigned>(threads()), 0);
  }

 private:
  // A parallel region in which the calling thread waits and the others sleep.
  struct Region {
    absl::FunctionRef<void()> wait;
    std::atomic<bool> over = false;

    static void Body(void* data) {
      Region& region = *static_cast<Region*>(data);
      if (omp_get_thread_num() != 0) return region.over.wait(false);
      region.wait();
      region.over.store(true);
      region.over.notify_all();
    }
  };
};

}  // namespace

void ExecutionContext::UseThreads(int threads) {
  // A thread's first parallel region adopts the process's latest number unless
  // the thread was asked before: without this, a context that is created later
  // on another thread would change this one's.
  at::get_num_threads();
  at::set_num_threads(threads);
}

std::unique_ptr<ExecutionContext> ExecutionContext::CreateCpu(int threads) {
  UseThreads(threads);
  return std::make_unique<CpuExecutionContext>(threads);
}

}  // namespace stoker
