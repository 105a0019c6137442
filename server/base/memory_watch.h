// Tells in time that memory is about to run out. A container that reaches its
// limit is ended by the kernel without a word: what this says is the last line
// of its log.
//
// Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/cgroup_limits.h"
#include "base/clock.h"
#include "base/thread.h"

namespace stoker {

class MemoryWatch {
 public:
  // How often it looks, and from half of the limit on: 30 us each time. A model
  // may take a gigabyte in a second.
  static constexpr absl::Duration kPeriod = absl::Milliseconds(50);
  static constexpr absl::Duration kCloserPeriod = absl::Milliseconds(20);

  using Read = std::function<std::optional<GroupMemory>()>;
  // Called on a thread of its own, once each time when more than 90 % of the
  // limit are used after less than 80 % were.
  using Tell = std::function<void(const GroupMemory&)>;

  // Without a limit there is nothing to watch. The clock outlives this object.
  MemoryWatch(Read read, Tell tell, Clock& clock);
  ~MemoryWatch();

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);

  const Read read_;
  const Tell tell_;
  Clock& clock_;
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;
};

// "1.95 of 2.00 GiB of memory are in use, 1.20 GiB of it by this process ..."
std::string NearlyOutOfMemory(const GroupMemory& memory, int64_t own_bytes);

}  // namespace stoker
