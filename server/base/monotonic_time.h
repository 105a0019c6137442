// A moment on the clock that durations are measured with: it only moves
// forward, at a second per second, whatever is done to the time of day. Only
// differences mean anything; for people, files and other machines there is
// absl::Time from Clock::WallNow(), and neither converts into the other.
//
// A value.
#pragma once

#include <compare>
#include <cstdint>

#include "absl/time/time.h"

namespace stoker {

class MonotonicTime {
 public:
  // The clock's zero, some moment before the process began.
  constexpr MonotonicTime() = default;
  static constexpr MonotonicTime InfiniteFuture() {
    return MonotonicTime(absl::InfiniteDuration());
  }
  static constexpr MonotonicTime InfinitePast() {
    return MonotonicTime(-absl::InfiniteDuration());
  }

  // Since the clock's zero, for what is kept in an atomic; the infinite ones
  // become the largest and the smallest number.
  static constexpr MonotonicTime FromNanoseconds(int64_t since_zero) {
    return MonotonicTime(absl::Nanoseconds(since_zero));
  }
  int64_t ToNanoseconds() const {
    return absl::ToInt64Nanoseconds(since_zero_);
  }

  friend absl::Duration operator-(MonotonicTime later, MonotonicTime earlier) {
    return later.since_zero_ - earlier.since_zero_;
  }
  friend MonotonicTime operator+(MonotonicTime time, absl::Duration duration) {
    return MonotonicTime(time.since_zero_ + duration);
  }
  friend MonotonicTime operator-(MonotonicTime time, absl::Duration duration) {
    return MonotonicTime(time.since_zero_ - duration);
  }
  MonotonicTime& operator+=(absl::Duration duration) {
    since_zero_ += duration;
    return *this;
  }

  friend constexpr bool operator==(MonotonicTime a, MonotonicTime b) {
    return a.since_zero_ == b.since_zero_;
  }
  friend constexpr std::strong_ordering operator<=>(MonotonicTime a,
                                                    MonotonicTime b) {
    if (a.since_zero_ == b.since_zero_) return std::strong_ordering::equal;
    return a.since_zero_ < b.since_zero_ ? std::strong_ordering::less
                                         : std::strong_ordering::greater;
  }

 private:
  explicit constexpr MonotonicTime(absl::Duration since_zero)
      : since_zero_(since_zero) {}

  absl::Duration since_zero_;
};

}  // namespace stoker
