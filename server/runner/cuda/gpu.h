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

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "metrics/metrics.h"
#include "runner/gpu_faults.h"
#include "runner/gpu_memory.h"
#include "runner/gpus.h"
#include "runner/run_watch.h"

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

  // Held shared by whoever calls CUDA, exclusively while a graph is captured:
  // two captures at a time end in illegal accesses, and what other threads do
  // meanwhile (asking whose memory a pointer is, freeing some) may end a
  // capture. Never held while waiting for the GPU.
  absl::Mutex& capture_lock() { return capture_lock_; }

  // As the driver says now; 0 when it can't.
  int64_t FreeBytes() const;
  // Memory.Take; lets the caching allocator's spare memory go where that helps.
  absl::StatusOr<GpuMemory::Claim> Take(GpuUse use, absl::string_view whose,
                                        int64_t bytes);

  // Call in a catch block. `eager`: torch refuses values with exceptions of its
  // own, INVALID_ARGUMENT (runner/torch_errors.h).
  absl::Status ErrorNow(absl::string_view what, bool eager = false);
  // Of a call of CUDA's that returned `error`.
  absl::Status ErrorOf(int error, absl::string_view what);

  void CountCopies(int64_t to_device, int64_t to_host);

 private:
  const GpuFacts facts_;
  absl::Mutex& capture_lock_;
  GpuHealth health_;
  GpuMemory memory_;
  std::optional<Counter> to_device_;
  std::optional<Counter> to_host_;
  RunWatch watch_;  // last: its thread reports to health_
};

}  // namespace stoker
