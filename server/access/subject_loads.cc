#include "access/subject_loads.h"

namespace stoker {
namespace {

// How many of those that have requests under way are passed over at a time.
// They are more than there may be only where as many requests are under way.
constexpr int kMostPassedOver = 8;

}  // namespace

void SubjectLoads::Limit(const CallerLimits& limits) {
  absl::MutexLock lock(&mu_);
  limits_ = limits;
  for (const Subject& subject : subjects_) subject.load->Limit(limits);
}

std::shared_ptr<CallerLoad> SubjectLoads::Of(const TokenHash& subject) {
  absl::MutexLock lock(&mu_);
  const auto found = places_.find(subject);
  if (found != places_.end()) {
    subjects_.splice(subjects_.end(), subjects_, found->second);
    return found->second->load;
  }
  MakeRoom();
  auto load = std::make_shared<CallerLoad>();
  load->Limit(limits_);
  places_[subject] = subjects_.insert(subjects_.end(), {subject, load});
  return load;
}

void SubjectLoads::MakeRoom() {
  for (int i = 0; i < kMostPassedOver && subjects_.size() >= most_; ++i) {
    if (subjects_.front().load->under_way() > 0) {
      subjects_.splice(subjects_.end(), subjects_, subjects_.begin());
      continue;
    }
    places_.erase(subjects_.front().hash);
    subjects_.pop_front();
    forgotten_.Add();
  }
}

size_t SubjectLoads::size() const {
  absl::MutexLock lock(&mu_);
  return subjects_.size();
}

}  // namespace stoker
