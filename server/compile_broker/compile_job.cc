#include "compile_broker/compile_job.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace stoker {

CompileJob::CompileJob(Submission submission)
    : request(std::move(submission.request)) {
  waiters.push_back(
      {std::move(submission.progress), std::move(submission.done)});
  if (waiters.back().progress) waiters.back().progress(phase);
}

void CompileJob::SetPhase(std::string_view name) {
  if (phase == name) return;
  phase = std::string(name);
  for (const Waiter& waiter : waiters) {
    if (waiter.progress) waiter.progress(phase);
  }
}

void CompileJob::Join(Submission submission) {
  waiters.push_back(
      {std::move(submission.progress), std::move(submission.done)});
  if (waiters.back().progress) waiters.back().progress(phase);
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
