#include "compile_broker/supervisor_inbox.h"

namespace stoker {

void SupervisorInbox::Submit(Submission submission) {
  absl::MutexLock lock(&mu_);
  news_.submissions.push_back(std::move(submission));
}

void SupervisorInbox::Post(WorkerEvent event) {
  absl::MutexLock lock(&mu_);
  news_.events.push_back(std::move(event));
}

void SupervisorInbox::NoteLeaver() {
  absl::MutexLock lock(&mu_);
  news_.leavers = true;
}

void SupervisorInbox::NoteExpected() {
  absl::MutexLock lock(&mu_);
  news_.expecting = true;
}

void SupervisorInbox::Stop() {
  absl::MutexLock lock(&mu_);
  news_.stopping = true;
}

News SupervisorInbox::Wait(Clock& clock, MonotonicTime deadline) {
  absl::MutexLock lock(&mu_);
  clock.AwaitWithDeadline(
      &mu_, absl::Condition(this, &SupervisorInbox::HasNews), deadline);
  News taken;
  taken.submissions.swap(news_.submissions);
  taken.events.swap(news_.events);
  taken.leavers = std::exchange(news_.leavers, false);
  taken.expecting = std::exchange(news_.expecting, false);
  taken.stopping = news_.stopping;
  return taken;
}

bool SupervisorInbox::HasNews() const {
  return news_.stopping || news_.leavers || news_.expecting ||
         !news_.submissions.empty() || !news_.events.empty();
}

}  // namespace stoker
