// Whether a peer that owes bytes still makes progress: so many of them within
// the limit, and then as many again.
//
// Not thread-safe.
#pragma once

#include <cstddef>

#include "base/monotonic_time.h"

namespace stoker {

class Progress {
 public:
  Progress(absl::Duration limit, size_t bytes) : limit_(limit), bytes_(bytes) {}

  bool due() const { return due_ != MonotonicTime::InfiniteFuture(); }
  void Begin(MonotonicTime now) {
    due_ = now + limit_;
    moved_ = 0;
  }
  void End() { due_ = MonotonicTime::InfiniteFuture(); }
  void Add(size_t bytes, MonotonicTime now) {
    if (!due()) return;
    moved_ += bytes;
    if (moved_ >= bytes_) Begin(now);
  }
  bool Stalled(MonotonicTime now) const { return now >= due_; }

 private:
  const absl::Duration limit_;
  const size_t bytes_;
  MonotonicTime due_ = MonotonicTime::InfiniteFuture();
  size_t moved_ = 0;
};

}  // namespace stoker
