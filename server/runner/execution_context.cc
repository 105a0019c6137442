#include "runner/execution_context.h"

#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <cstring>
#include <memory>

#include "base/free_cores.h"

// What gcc calls for "#pragma omp parallel", from the libgomp that torch
// brings: with clang, the pragma would bring a second OpenMP with threads of
// its own.
extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads,
                   unsigned flags);
int omp_get_thread_num();
void omp_set_num_threads(int threads);
// Of the MKL that torch holds, where there is one: for the calling thread.
// (Its name in lower case takes a pointer, as Fortran does.)
int MKL_Set_Num_Threads_Local(int threads) __attribute__((weak));
}

namespace stoker {
namespace {

// Hears of memory as a profiler of this thread would: the only way to all of it
// that costs other threads and other runs nothing.
class Poison : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* data, int64_t bytes, size_t /*allocated*/,
                         size_t /*reserved*/, c10::Device device) override {
    // Negative where memory is freed.
    if (bytes <= 0 || !device.is_cpu()) return;
    std::memset(data, 0xFF, static_cast<size_t>(bytes));
  }
  bool memoryProfilingEnabled() const override { return true; }
};

class CpuExecutionContext : public ExecutionContext {
 public:
  CpuExecutionContext(int threads, const FreeCores* free_cores)
      : ExecutionContext(threads, free_cores == nullptr ? threads : 1),
        most_(threads),
        free_cores_(free_cores) {}

  // What at::set_num_threads does for this thread, without what it does for
  // others.
  void BeginRun() override {
    if (free_cores_ == nullptr) return;
    const int share = few_ ? fewest_threads() : free_cores_->Share(most_);
    if (share == threads_) return;
    threads_ = share;
    omp_set_num_threads(share);
    if (MKL_Set_Num_Threads_Local != nullptr) MKL_Set_Num_Threads_Local(share);
  }

  bool HasAllThreads() const override {
    return free_cores_ == nullptr || free_cores_->Share(most_) == most_;
  }

  void WithFewestThreads(absl::FunctionRef<void()> work) override {
    few_ = true;
    work();
    few_ = false;
  }

  void WithPoisonedMemory(absl::FunctionRef<void()> run) override {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE,
                                    std::make_shared<Poison>());
    run();
  }

  void Idle(absl::FunctionRef<void()> wait) override {
    if (threads() == 1) return wait();
    Region region{wait};
    GOMP_parallel(&Region::Body, &region, static_cast<unsigned>(threads()), 0);
  }

 private:
  const int most_;
  const FreeCores* const free_cores_;
  bool few_ = false;

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

std::unique_ptr<ExecutionContext> ExecutionContext::CreateCpu(
    int threads, const FreeCores* free_cores) {
  UseThreads(threads);
  return std::make_unique<CpuExecutionContext>(threads, free_cores);
}

}  // namespace stoker
