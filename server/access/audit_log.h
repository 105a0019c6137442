// Lines of the log about who did, or was refused, what. Whoever may not do
// anything can't fill the log with that: its lines have a bound, and the next
// one says how many are missing. Nobody unknown can crowd out what is said of
// who is known.
//
// Thread-safe.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "access/method.h"
#include "base/clock.h"
#include "base/monotonic_time.h"

namespace stoker {

// A name that a client chose, as it may stand in a line: escaped, and cut after
// 128 bytes.
std::string ShownName(std::string_view name);

class AuditLog {
 public:
  // Of bounded lines.
  static constexpr int kLines = 20;
  static constexpr absl::Duration kWindow = absl::Seconds(10);

  explicit AuditLog(Clock& clock) : clock_(clock) {}

  struct Entry {
    std::string_view caller;
    std::string_view peer;
    const Method& method;
    std::string_view object;  // a model or a region; empty: none
    // Of the caller's token, which names one of many; empty: it names none.
    std::string_view subject = {};
  };

  // Whether the caller is known by a policy; else he is anybody.
  enum class Standing { kAnybody, kKnown };

  // A call that changes the server was let in. Of who is known there is a line
  // for each.
  void Change(const Entry& entry, Standing standing) ABSL_LOCKS_EXCLUDED(mu_);
  void Refusal(const Entry& entry, Standing standing, std::string_view reason)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Bound {
    MonotonicTime window_end = MonotonicTime::InfinitePast();
    int lines = 0;
    int left_out = 0;
  };

  // Lines that were left out before this one; nullopt: it is left out too.
  std::optional<int> Admit(Standing standing) ABSL_LOCKS_EXCLUDED(mu_);

  Clock& clock_;
  absl::Mutex mu_;
  std::array<Bound, 2> bounds_ ABSL_GUARDED_BY(mu_);  // by standing
};

}  // namespace stoker
