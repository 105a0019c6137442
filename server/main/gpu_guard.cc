#include "main/gpu_guard.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"

namespace stoker {
namespace {

void EndWithin(absl::Duration patience) {
  std::thread([patience] {
    const timespec wait = absl::ToTimespec(patience);
    nanosleep(&wait, nullptr);
    _exit(GpuGuard::kExitCode);
  }).detach();
}

}  // namespace

GpuGuard::GpuGuard(std::string library, GpuOptions options,
                   absl::Duration patience)
    : library_(std::move(library)), options_(std::move(options)) {
  options_.on_lost = [this, patience](const std::string& why) {
    log::Critical("{}", why);
    if (lost_.exchange(true)) return;
    EndWithin(patience);
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

}  // namespace stoker
