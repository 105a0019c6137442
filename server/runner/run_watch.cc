#include "runner/run_watch.h"

#include <algorithm>
#include <utility>

namespace stoker {
namespace {

constexpr int kLooksPerLimit = 4;

}  // namespace

RunWatch::RunWatch(Clock& clock, absl::Duration limit, OnWedged on_wedged)
    : clock_(clock), limit_(limit), on_wedged_(std::move(on_wedged)) {
  thread_ = Thread("gpu-watch", [this] { Watch(); });
}

RunWatch::~RunWatch() {
  {
    const absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.Join();
}

std::shared_ptr<RunWatch::Entry> RunWatch::Add() {
  auto entry = std::make_shared<Entry>(clock_);
  const absl::MutexLock lock(&mu_);
  std::erase_if(entries_, [](const auto& known) { return known.expired(); });
  entries_.push_back(entry);
  return entry;
}

absl::Duration RunWatch::LongestLocked(MonotonicTime now) {
  absl::Duration longest = absl::ZeroDuration();
  for (const std::weak_ptr<Entry>& known : entries_) {
    const std::shared_ptr<Entry> entry = known.lock();
    const int64_t since = entry == nullptr ? 0 : entry->since_.load();
    if (since == 0) continue;
    longest = std::max(longest, now - MonotonicTime::FromNanoseconds(since));
  }
  return longest;
}

void RunWatch::Watch() {
  for (;;) {
    absl::Duration longest;
    {
      const absl::MutexLock lock(&mu_);
      clock_.AwaitWithDeadline(&mu_, absl::Condition(&stopping_),
                               clock_.Now() + limit_ / kLooksPerLimit);
      if (stopping_) return;
      longest = LongestLocked(clock_.Now());
    }
    if (longest <= limit_) continue;
    on_wedged_(longest);
    return;
  }
}

}  // namespace stoker
