#include "metrics/recent_refusals.h"

#include <utility>

#include "base/utf8.h"

namespace stoker {

void RecentRefusals::Add(std::string_view what, std::string_view of,
                         std::string_view label, std::string_view reason) {
  Refusal refusal{clock_.WallNow(), std::string(what), ValidUtf8(of),
                  std::string(label),
                  ValidUtf8(reason.substr(0, kMaxReasonBytes))};
  if (reason.size() > kMaxReasonBytes) refusal.reason += "…";
  absl::MutexLock lock(&mu_);
  kept_.push_front(std::move(refusal));
  if (kept_.size() > kKept) kept_.pop_back();
}

std::vector<RecentRefusals::Refusal> RecentRefusals::Read() const {
  absl::MutexLock lock(&mu_);
  return {kept_.begin(), kept_.end()};
}

}  // namespace stoker
