#include "rpc/completion_thread.h"

#include <utility>

namespace stoker {

CompletionThread::CompletionThread()
    : thread_("completion", [this] { Loop(); }) {}

CompletionThread::~CompletionThread() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.Join();
}

void CompletionThread::Run(std::function<void()> work) {
  absl::MutexLock lock(&mu_);
  queue_.push_back(std::move(work));
}

void CompletionThread::Loop() {
  while (true) {
    std::vector<std::function<void()>> batch;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &CompletionThread::HasWorkOrStops));
      if (queue_.empty()) return;
      batch.swap(queue_);
    }
    for (const std::function<void()>& work : batch) work();
  }
}

}  // namespace stoker
