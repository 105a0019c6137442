#include "runner/execution_context.h"

#include <ATen/Parallel.h>

namespace stoker {

std::unique_ptr<ExecutionContext> ExecutionContext::CreateCpu(int threads) {
  // A thread's first parallel region adopts the process's latest number unless
  // the thread was asked before: without this, a context that is created later
  // on another thread would change this one's.
  at::get_num_threads();
  at::set_num_threads(threads);
  return std::unique_ptr<ExecutionContext>(new ExecutionContext(threads));
}

}  // namespace stoker
