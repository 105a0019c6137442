#include "compile_broker/compile_queue.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace stoker {

std::unique_ptr<CompileJob> CompileQueue::Remove(const CompileJob& job) {
  const auto place =
      std::find_if(jobs_.begin(), jobs_.end(),
                   [&](const auto& other) { return other.get() == &job; });
  std::unique_ptr<CompileJob> removed = std::move(*place);
  jobs_.erase(place);
  return removed;
}

CompileJob* CompileQueue::FindRunning(int64_t id) const {
  for (const auto& job : jobs_) {
    if (job->state == CompileJob::State::kRunning && job->id == id) {
      return job.get();
    }
  }
  return nullptr;
}

CompileJob* CompileQueue::FindKey(const ArtifactKey& key) const {
  for (const auto& job : jobs_) {
    if (job->request.key == key) return job.get();
  }
  return nullptr;
}

CompileJob* CompileQueue::First() const {
  return jobs_.empty() ? nullptr : jobs_.front().get();
}

int CompileQueue::Count(CompileJob::State state) const {
  return static_cast<int>(
      std::count_if(jobs_.begin(), jobs_.end(),
                    [&](const auto& job) { return job->state == state; }));
}

void CompileQueue::ForEach(
    CompileJob::State state,
    const std::function<void(CompileJob&)>& visit) const {
  std::vector<CompileJob*> found;
  for (const auto& job : jobs_) {
    if (job->state == state) found.push_back(job.get());
  }
  for (CompileJob* job : found) visit(*job);
}

void CompileQueue::ForEach(
    const std::function<void(const CompileJob&)>& visit) const {
  for (const auto& job : jobs_) visit(*job);
}

}  // namespace stoker
