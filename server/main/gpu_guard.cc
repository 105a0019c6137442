#include "main/gpu_guard.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"

namespace stoker {

GpuGuard::GpuGuard(std::string library, GpuOptions options)
    : library_(std::move(library)), options_(std::move(options)) {
  options_.on_lost = [](const std::string& why) {
    log::Critical("{}", why);
    kill(getpid(), kSignal);
  };
}

absl::StatusOr<Gpus*> GpuGuard::Find() {
  const absl::MutexLock lock(&mu_);
  if (gpus_ == nullptr) {
    ASSIGN_OR_RETURN(gpus_, OpenGpus(library_, options_));
  }
  return gpus_.get();
}

void GpuGuard::UpdateMetrics() {
  const absl::MutexLock lock(&mu_);
  if (gpus_ != nullptr) gpus_->UpdateMetrics();
}

void GpuGuard::EndWithin(absl::Duration patience) {
  std::thread([patience] {
    const timespec wait = absl::ToTimespec(patience);
    nanosleep(&wait, nullptr);
    _exit(kExitCode);
  }).detach();
}

}  // namespace stoker
