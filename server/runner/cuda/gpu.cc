#include "runner/cuda/gpu.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "metrics/catalog.h"
#include "runner/torch_errors.h"

namespace stoker {
namespace {

// FaultOf (runner/gpu_faults.cc) has CUDA's numbers in it.
static_assert(cudaErrorMemoryAllocation == 2 &&
              cudaErrorDevicesUnavailable == 46 && cudaErrorNoDevice == 100 &&
              cudaErrorECCUncorrectable == 214 &&
              cudaErrorNvlinkUncorrectable == 220 &&
              cudaErrorIllegalAddress == 700 && cudaErrorLaunchTimeout == 702 &&
              cudaErrorContextIsDestroyed == 709 && cudaErrorAssert == 710 &&
              cudaErrorHardwareStackError == 714 &&
              cudaErrorLaunchFailure == 719 && cudaErrorSystemNotReady == 802 &&
              cudaErrorSystemDriverMismatch == 803 &&
              cudaErrorStreamCaptureUnsupported == 900 &&
              cudaErrorStreamCaptureWrongThread == 908 &&
              cudaErrorUnknown == 999);

// What CUDA remembers, or, for a context that is poisoned, would say to any
// call; 0: nothing.
int PendingError() {
  const cudaError_t last = cudaGetLastError();
  if (last != cudaSuccess) return last;
  const cudaError_t now = cudaStreamQuery(nullptr);
  if (now == cudaErrorNotReady) return cudaSuccess;
  return now;
}

// Whether torch's allocator had no memory for this thread, not even after it
// had let go what it keeps.
thread_local bool out_of_memory = false;

std::string Name(const GpuFacts& facts) {
  return absl::StrCat("cuda:", facts.index);
}

}  // namespace

Gpu::Gpu(GpuFacts facts, const GpuOptions& options, absl::Mutex& capture_lock)
    : facts_(std::move(facts)),
      capture_lock_(capture_lock),
      health_(Name(facts_), options.on_lost),
      memory_(Name(facts_), facts_.total_bytes, options.metrics),
      watch_(*options.clock, options.run_limit,
             [this](absl::Duration since) { health_.ReportWedged(since); }) {
  if (options.metrics == nullptr) return;
  const std::string name = Name(facts_);
  for (const char* direction : {"to_device", "to_host"}) {
    const Labels labels = {{"device", name}, {"direction", direction}};
    copies_.push_back(
        {options.metrics->Counter(metric::kGpuCopiedBytes, labels),
         options.metrics->Histogram(metric::kGpuCopySeconds, labels)});
  }
  replays_ =
      options.metrics->Counter(metric::kGraphReplays, {{"device", name}});
}

int64_t Gpu::FreeBytes() const {
  size_t free = 0;
  size_t total = 0;
  const c10::cuda::CUDAGuard guard(device());
  return cudaMemGetInfo(&free, &total) == cudaSuccess
             ? static_cast<int64_t>(free)
             : 0;
}

int64_t Gpu::BytesBesideTorch() const {
  constexpr size_t kAll = 0;  // of the allocator's statistics
  const int64_t torch =
      c10::cuda::CUDACachingAllocator::getDeviceStats(device().index())
          .reserved_bytes[kAll]
          .current;
  return facts_.total_bytes - FreeBytes() - torch -
         memory_.taken(GpuUse::kWeights);
}

absl::StatusOr<GpuMemory::Claim> Gpu::Take(GpuUse use, absl::string_view whose,
                                           int64_t bytes) {
  absl::StatusOr<GpuMemory::Claim> claim = TakeFree(use, whose, bytes);
  if (claim.ok() || use == GpuUse::kGraphs) return claim;
  // What can't fit in any case costs nobody anything.
  if (!CouldHold(bytes)) return claim;
  while (!claim.ok() && spares_.ReleaseNext(Std(whose))) {
    claim = TakeFree(use, whose, bytes);
  }
  return claim;
}

bool Gpu::CouldHold(int64_t bytes, int64_t freed) const {
  const int64_t spare =
      memory_.used(GpuUse::kGraphs) + memory_.used(GpuUse::kEager);
  return bytes + GpuMemory::kReserve <= FreeBytes() + spare + freed;
}

absl::StatusOr<GpuMemory::Claim> Gpu::TakeFree(GpuUse use,
                                               absl::string_view whose,
                                               int64_t bytes) {
  const auto free = [&] { return FreeBytes(); };
  const absl::ReaderMutexLock lock(&capture_lock_);
  absl::StatusOr<GpuMemory::Claim> claim =
      memory_.Take(use, whose, bytes, free);
  if (claim.ok()) return claim;
  c10::cuda::CUDACachingAllocator::emptyCache();
  return memory_.Take(use, whose, bytes, free);
}

absl::Status Gpu::ErrorOf(int error, absl::string_view what) {
  cudaGetLastError();  // or the next call would be told again
  return health_.Report(error, what,
                        cudaGetErrorString(static_cast<cudaError_t>(error)));
}

void Gpu::WatchForOutOfMemory() {
  c10::cuda::CUDACachingAllocator::attachOutOfMemoryObserver(
      [](int64_t /*device*/, size_t /*allocated*/, size_t /*total*/,
         size_t /*free*/) { out_of_memory = true; });
}

void Gpu::BeginRun() { out_of_memory = false; }

absl::Status Gpu::ErrorNow(absl::string_view what, bool eager) {
  int error = 0;
  std::string text;
  try {
    throw;
  } catch (const c10::OutOfMemoryError& thrown) {
    error = cudaErrorMemoryAllocation;
    text = thrown.what_without_backtrace();
  } catch (const c10::AcceleratorError& thrown) {
    error = thrown.get_error_code();
    text = thrown.what_without_backtrace();
  } catch (...) {
    // Nothing of CUDA's, or compiled code, which says what on stderr only.
  }
  if (error == 0) error = PendingError();
  if (error == 0 && out_of_memory) error = cudaErrorMemoryAllocation;
  // What the driver refuses compiled code (a module, a launch) has neither a
  // number nor a text here, so that what is left has to tell.
  if (error == 0 && !eager && FreeBytes() < 2 * GpuMemory::kReserve) {
    error = cudaErrorMemoryAllocation;
  }
  if (error == 0) return eager ? EagerError(what) : CompiledError(what);
  cudaGetLastError();
  if (text.empty()) {
    text = cudaGetErrorString(static_cast<cudaError_t>(error));
  }
  return health_.Report(error, what, text.substr(0, text.find('\n')));
}

void Gpu::CountCopied(Direction direction, int64_t bytes) {
  if (copies_.empty()) return;
  copies_[static_cast<size_t>(direction)].bytes.Add(static_cast<double>(bytes));
}

void Gpu::CountCopyTime(Direction direction, absl::Duration time) {
  if (copies_.empty()) return;
  copies_[static_cast<size_t>(direction)].seconds.Observe(
      absl::ToDoubleSeconds(time));
}

void Gpu::CountReplay() {
  if (replays_) replays_->Add();
}

}  // namespace stoker
