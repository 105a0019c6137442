// How many cores this process can have now: those of its affinity and its CPU
// quota that other processes leave it. Threads of one computation wait for each
// other at barriers, so that one more than there are cores makes it slower, not
// faster.
//
// Measured, not asked for: over a tenth of a second, the time that the CPUs
// idled or spent on niced work, and what this process used itself. The median
// of half a second counts, so that nobody's short burst does.
//
// Thread-safe; Share may be called for each run.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/thread.h"

namespace stoker {

// Seconds of processor time until now.
struct CpuTimes {
  std::vector<int> cpus;  // that the calling thread may use
  double to_be_had = 0;   // of these CPUs: idle, or at niced work
  double own = 0;         // used by this process
};
// nullopt where /proc doesn't say. `root`: where /proc is; tests have their
// own.
std::optional<CpuTimes> ReadCpuTimes(const std::string& root = "/");

class FreeCores {
 public:
  static constexpr absl::Duration kPeriod = absl::Milliseconds(100);
  static constexpr int kReadings = 5;

  using Read = std::function<std::optional<CpuTimes>()>;
  using Quota = std::function<double()>;  // cores; infinity: none

  // All of `cores` until something else was measured. The clock outlives this
  // object.
  FreeCores(int cores, Read read, Quota quota, Clock& clock);
  ~FreeCores();

  // Cores, in parts of one; at least 0, at most `cores`.
  double now() const { return free_.load(std::memory_order_relaxed); }

  // Of so many threads, meant for all cores of the host or a part of them: how
  // many have a core each now. At least 1.
  int Share(int threads) const;

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);

  const double cores_;
  const Read read_;
  const Quota quota_;
  Clock& clock_;
  std::atomic<double> free_;
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;
};

}  // namespace stoker
