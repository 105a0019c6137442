// What was refused lately, with the reason, for people: counters say how often,
// this says what and why.
//
// Thread-safe.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace stoker {

class RecentRefusals {
 public:
  static constexpr size_t kKept = 50;
  static constexpr size_t kMaxReasonBytes = 1000;

  struct Refusal {
    absl::Time time;
    // "promotion": a bucket stays on eager; "cache": an entry was set aside.
    std::string what;
    std::string of;      // "minilm:1 batch=8,tokens=16", "621b6bbffda9"
    std::string label;   // of the counter: "profit", "checksum"
    std::string reason;  // UTF-8, kMaxReasonBytes and an ellipsis at most
  };

  explicit RecentRefusals(Clock& clock) : clock_(clock) {}

  void Add(std::string_view what, std::string_view of, std::string_view label,
           std::string_view reason);
  // The newest first, at most kKept.
  std::vector<Refusal> Read() const;

 private:
  Clock& clock_;
  mutable absl::Mutex mu_;
  std::deque<Refusal> kept_ ABSL_GUARDED_BY(mu_);  // the newest first
};

}  // namespace stoker
