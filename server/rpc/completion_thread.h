// A thread that takes work off others. On one, answers are written while device
// threads are busy: they hand a finished request over and go on with the next
// batch. On another, messages are read that take long.
//
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "base/thread.h"

namespace stoker {

class CompletionThread {
 public:
  explicit CompletionThread(const std::string& name = "completion");
  // Runs what was handed over, then ends.
  ~CompletionThread();

  // Runs `work` on the thread, in the order of the calls.
  void Run(absl::AnyInvocable<void()> work) ABSL_LOCKS_EXCLUDED(mu_);
  // Whether work that was handed over is not done yet.
  bool busy() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return runs_ || !queue_.empty();
  }

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  bool HasWorkOrStops() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || !queue_.empty();
  }

  mutable absl::Mutex mu_;
  std::vector<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mu_);
  bool runs_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;
};

}  // namespace stoker
