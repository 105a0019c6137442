#include "compile_broker/compile_job.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace stoker {

CompileJob::Waiter::Waiter(Submission submission, SupervisorInbox& inbox)
    : progress(std::move(submission.progress)),
      done(std::move(submission.done)),
      stop(std::move(submission.stop)),
      on_stop(stop, [&inbox] { inbox.NoteLeaver(); }) {}

CompileJob::CompileJob(Submission submission, SupervisorInbox& its_inbox)
    : inbox(its_inbox), request(std::move(submission.request)) {
  Join(std::move(submission));
}

void CompileJob::SetPhase(std::string_view name) {
  if (phase == name) return;
  phase = std::string(name);
  for (const Waiter& waiter : waiters) {
    if (waiter.progress) waiter.progress(phase);
  }
}

void CompileJob::Join(Submission submission) {
  const Waiter& waiter = waiters.emplace_back(std::move(submission), inbox);
  if (waiter.progress) waiter.progress(phase);
}

bool CompileJob::DropLeavers() {
  for (auto it = waiters.begin(); it != waiters.end();) {
    if (!it->stop.stop_requested()) {
      ++it;
      continue;
    }
    it->done(absl::CancelledError("nobody wants it any more"));
    it = waiters.erase(it);
  }
  return !waiters.empty();
}

void CompileJob::Answer(const absl::StatusOr<CacheEntry>& result) {
  for (const Waiter& waiter : waiters) waiter.done(result);
  waiters.clear();
}

std::string CompileJob::Name() const {
  return absl::StrCat(request.model, " [", request.bucket, "] ",
                      request.key.Short());
}

}  // namespace stoker
