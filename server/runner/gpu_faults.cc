#include "runner/gpu_faults.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace stoker {

GpuFault FaultOf(int cuda_error) {
  // Names as in driver_types.h; cuda/gpu.cc holds the numbers to it.
  switch (cuda_error) {
    case 0:
      return GpuFault::kNone;
    case 2:  // MemoryAllocation
      return GpuFault::kMemory;
    case 214:  // ECCUncorrectable
    case 220:  // NvlinkUncorrectable
    case 226:  // Contained
    case 700:  // IllegalAddress
    case 702:  // LaunchTimeout
    case 710:  // Assert
    case 714:  // HardwareStackError
    case 715:  // IllegalInstruction
    case 716:  // MisalignedAddress
    case 717:  // InvalidAddressSpace
    case 718:  // InvalidPc
    case 719:  // LaunchFailure
    case 721:  // TensorMemoryLeak
    case 999:  // Unknown
      return GpuFault::kSticky;
    case 3:    // InitializationError
    case 4:    // CudartUnloading
    case 46:   // DevicesUnavailable
    case 100:  // NoDevice
    case 101:  // InvalidDevice
    case 201:  // DeviceUninitialized
    case 709:  // ContextIsDestroyed
    case 802:  // SystemNotReady
    case 803:  // SystemDriverMismatch
    case 805:  // MpsConnectionFailed
    case 806:  // MpsRpcFailure
    case 807:  // MpsServerNotReady
      return GpuFault::kGone;
    default:
      // StreamCaptureUnsupported to StreamCaptureWrongThread.
      return cuda_error >= 900 && cuda_error <= 908 ? GpuFault::kCapture
                                                    : GpuFault::kOther;
  }
}

GpuHealth::GpuHealth(std::string device, OnLost on_lost)
    : device_(std::move(device)), on_lost_(std::move(on_lost)) {}

absl::Status GpuHealth::Check() const {
  if (!lost_.load(std::memory_order_acquire)) return absl::OkStatus();
  const absl::MutexLock lock(&mu_);
  return absl::UnavailableError(why_);
}

absl::Status GpuHealth::Report(int cuda_error, absl::string_view what,
                               absl::string_view text) {
  const GpuFault fault = FaultOf(cuda_error);
  if (fault == GpuFault::kSticky || fault == GpuFault::kGone) {
    Lose(absl::StrCat(device_,
                      fault == GpuFault::kGone ? " is gone" : " failed",
                      " (CUDA error ", cuda_error, ", ", what, "): ", text,
                      "; the process has to be started again"));
  }
  absl::Status lost = Check();
  if (!lost.ok()) return lost;
  const std::string message = absl::StrCat(device_, ": ", what, ": ", text);
  switch (fault) {
    case GpuFault::kMemory:
      return absl::ResourceExhaustedError(message);
    case GpuFault::kCapture:
      return absl::FailedPreconditionError(message);
    default:
      return absl::InternalError(message);
  }
}

void GpuHealth::ReportWedged(absl::Duration since) {
  Lose(absl::StrCat(device_, " hangs: a run has not ended for ",
                    absl::FormatDuration(since),
                    "; the process has to be started again"));
}

void GpuHealth::Lose(std::string why) {
  {
    const absl::MutexLock lock(&mu_);
    if (!why_.empty()) return;
    why_ = why;
    lost_.store(true, std::memory_order_release);
  }
  if (on_lost_) on_lost_(why);
}

}  // namespace stoker
