// Records on their way from those who answer requests to the one thread that
// does something with them: bounded, so that a slow thread costs records and
// never a request.
//
// Thread-safe; one thread takes.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/monotonic_time.h"

namespace stoker {

template <typename Record>
class RecordQueue {
 public:
  // At most `capacity` wait. They are taken together: `linger` after the first
  // of them came, or when a quarter of the capacity has.
  RecordQueue(size_t capacity, absl::Duration linger, Clock& clock)
      : capacity_(capacity), linger_(linger), clock_(clock) {}

  // False: it is full, or closed.
  bool Put(Record record) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (records_.size() >= capacity_ || closed_) return false;
    records_.push_back(std::move(record));
    return true;
  }

  // Empty: it is closed, and everything was taken.
  std::vector<Record> Take() ABSL_LOCKS_EXCLUDED(mu_) {
    std::vector<Record> taken;
    absl::MutexLock lock(&mu_);
    const auto some = [this] {
      mu_.AssertReaderHeld();
      return closed_ || !records_.empty();
    };
    const auto many = [this] {
      mu_.AssertReaderHeld();
      return closed_ || records_.size() >= capacity_ / 4;
    };
    clock_.AwaitWithDeadline(&mu_, absl::Condition(&some),
                             MonotonicTime::InfiniteFuture());
    clock_.AwaitWithDeadline(&mu_, absl::Condition(&many),
                             clock_.Now() + linger_);
    taken.swap(records_);
    return taken;
  }

  // Nothing more comes. Whoever is at work on what was taken has `patience`
  // left.
  void Close(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mu_) {
    const MonotonicTime end = clock_.Now() + patience;
    absl::MutexLock lock(&mu_);
    closed_ = true;
    end_ = end;
  }
  // Whether that is over.
  bool HasEnded() ABSL_LOCKS_EXCLUDED(mu_) {
    const MonotonicTime now = clock_.Now();
    absl::MutexLock lock(&mu_);
    return now >= end_;
  }
  // Waits that long; false: the queue was closed before.
  bool Pause(absl::Duration duration) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return !clock_.AwaitWithDeadline(&mu_, absl::Condition(&closed_),
                                     clock_.Now() + duration);
  }

 private:
  const size_t capacity_;
  const absl::Duration linger_;
  Clock& clock_;

  absl::Mutex mu_;
  std::vector<Record> records_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  MonotonicTime end_ ABSL_GUARDED_BY(mu_) = MonotonicTime::InfiniteFuture();
};

}  // namespace stoker
