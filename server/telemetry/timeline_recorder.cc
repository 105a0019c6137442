#include "telemetry/timeline_recorder.h"

#include <utility>

namespace stoker {

bool TimelineRecorder::Begin() {
  absl::MutexLock lock(&mu_);
  if (records()) return false;
  began_ = clock_.Now();
  recording_ = {};
  recording_.began = clock_.WallNow();
  records_.store(true, std::memory_order_relaxed);
  return true;
}

Recording TimelineRecorder::End() {
  absl::MutexLock lock(&mu_);
  records_.store(false, std::memory_order_relaxed);
  recording_.took = clock_.Now() - began_;
  return std::exchange(recording_, {});
}

void TimelineRecorder::Put(const RequestRecord& record) {
  absl::MutexLock lock(&mu_);
  if (!records()) return;
  if (recording_.requests.size() < kMostRequests) {
    recording_.requests.push_back(record);
  } else {
    ++recording_.left_out;
  }
}

void TimelineRecorder::Put(const WorkRecord& record) {
  absl::MutexLock lock(&mu_);
  if (records() && recording_.work.size() < kMostWork) {
    recording_.work.push_back(record);
  }
}

}  // namespace stoker
