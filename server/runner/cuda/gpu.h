// One GPU as its loader, its contexts and its executables share it. Private to
// libstoker_cuda.so.
//
// Thread-safe.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "metrics/metrics.h"
#include "runner/gpu_faults.h"
#include "runner/gpu_memory.h"
#include "runner/gpus.h"
#include "runner/run_watch.h"
#include "runner/spare_memory.h"

namespace stoker {

class Gpu {
 public:
  // `capture_lock` is the process's; it and what is behind the options outlive
  // the Gpu.
  Gpu(GpuFacts facts, const GpuOptions& options, absl::Mutex& capture_lock);

  const GpuFacts& facts() const { return facts_; }
  c10::Device device() const {
    return {c10::kCUDA, static_cast<c10::DeviceIndex>(facts_.index)};
  }
  GpuHealth& health() { return health_; }
  GpuMemory& memory() { return memory_; }
  RunWatch& watch() { return watch_; }
  SpareMemory& spares() { return spares_; }

  // Held shared by whoever calls CUDA, exclusively while a graph is captured:
  // two captures at a time end in illegal accesses, and what other threads do
  // meanwhile (asking whose memory a pointer is, freeing some) may end a
  // capture. Never held for long, as every run waits behind a capture that
  // waits: not while waiting for the GPU, and who opens a program, which takes
  // seconds, holds the process's opening mutex instead, which a capture holds
  // too.
  absl::Mutex& capture_lock() { return capture_lock_; }

  // As the driver says now; 0 when it can't.
  int64_t FreeBytes() const;
  // Of what is taken, what neither torch's allocator has nor weights: contexts,
  // code, what the driver keeps for graphs, other processes' memory.
  int64_t BytesBesideTorch() const;
  // GpuMemory::Take. Where it doesn't fit, and could, memory goes in this
  // order until it does: what the caching allocator keeps, then what versions
  // can do without (runner/spare_memory.h), but not for a graph, which is that
  // itself. Not under the capture lock. Whoever has allocated it says so to the
  // claim.
  absl::StatusOr<GpuMemory::Claim> Take(GpuUse use, absl::string_view whose,
                                        int64_t bytes);

  // ExecutableLoader::CouldHold.
  bool CouldHold(int64_t bytes, int64_t freed = 0) const;

  // Once, before anything is allocated: from then on ErrorNow knows a thread's
  // want of memory also where compiled code has made it an error without a text
  // (AOTInductor's C interface does, and the allocator clears CUDA's own).
  static void WatchForOutOfMemory();
  // Forgets what this thread has seen: a run that began to want and managed.
  static void BeginRun();
  // Call in a catch block. `eager`: torch refuses values with exceptions of its
  // own, INVALID_ARGUMENT (runner/torch_errors.h).
  absl::Status ErrorNow(absl::string_view what, bool eager = false);
  // Of a call of CUDA's that returned `error`.
  absl::Status ErrorOf(int error, absl::string_view what);

  enum class Direction { kToDevice, kToHost };
  void CountCopied(Direction direction, int64_t bytes);
  // Of a batch, which they took on the device.
  void CountCopyTime(Direction direction, absl::Duration time);
  void CountReplay();

 private:
  const GpuFacts facts_;
  absl::Mutex& capture_lock_;
  GpuHealth health_;
  GpuMemory memory_;
  SpareMemory spares_;
  // Take, without what versions can do without.
  absl::StatusOr<GpuMemory::Claim> TakeFree(GpuUse use, absl::string_view whose,
                                            int64_t bytes);
  struct Copies {
    Counter bytes;
    Histogram seconds;
  };
  std::vector<Copies> copies_;  // by direction; empty: nothing is counted
  std::optional<Counter> replays_;
  RunWatch watch_;  // last: its thread reports to health_
};

}  // namespace stoker
