#include "rpc/completion_thread.h"

#include <utility>

namespace stoker {

CompletionThread::CompletionThread(const std::string& name)
    : thread_(name, [this] { Loop(); }) {}

CompletionThread::~CompletionThread() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.Join();
}

void CompletionThread::Run(absl::AnyInvocable<void()> work) {
  absl::MutexLock lock(&mu_);
  queue_.push_back(std::move(work));
}

void CompletionThread::Loop() {
  std::vector<absl::AnyInvocable<void()>> batch;
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      runs_ = false;
      mu_.Await(absl::Condition(this, &CompletionThread::HasWorkOrStops));
      if (queue_.empty()) return;
      batch.swap(queue_);
      runs_ = true;
    }
    for (absl::AnyInvocable<void()>& work : batch) work();
    batch.clear();
  }
}

}  // namespace stoker
