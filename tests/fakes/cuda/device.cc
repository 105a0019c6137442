#include "tests/fakes/cuda/device.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "tests/fakes/cuda/control.h"

namespace fake_cuda {
namespace {

thread_local Error last_error = 0;

// As server/runner/gpu_faults.cc has them.
bool Poisons(Error error) {
  static const std::set<Error> kSticky = {214, 220, 226, 700, 702, 710, 714,
                                          715, 716, 717, 718, 719, 721, 999};
  return kSticky.contains(error);
}

}  // namespace

thread_local CaptureMode thread_mode = CaptureMode::kGlobal;

void Violated(const std::string& rule) {
  std::fprintf(stderr, "fake CUDA: %s\n", rule.c_str());
  std::abort();
}

Device& Device::The() {
  static Device& device = *new Device;
  return device;
}

Error Device::BeginLocked(const char* call, bool takes_memory) {
  if (const auto at = at_.extract(call)) at.mapped()();
  const Error scripted = script_.Count(call);
  const Error memory = takes_memory ? script_.Count("memory") : 0;
  if (poison_ != 0) return poison_;
  const Error error = scripted != 0 ? scripted : memory;
  if (Poisons(error)) poison_ = error;
  return error;
}

Error Device::Begin(const char* call, bool takes_memory) {
  const Lock lock(mu_);
  return BeginLocked(call, takes_memory);
}

Error Device::BeginUnsafe(const char* call, bool takes_memory) {
  const Lock lock(mu_);
  if (thread_mode != CaptureMode::kRelaxed) {
    for (Stream* stream : streams_) {
      Capture* capture = stream->capture.get();
      if (capture == nullptr || capture->mode == CaptureMode::kRelaxed)
        continue;
      if (capture->thread == std::this_thread::get_id() ||
          (capture->mode == CaptureMode::kGlobal &&
           thread_mode == CaptureMode::kGlobal)) {
        capture->invalid = true;
        return kCaptureUnsupported;
      }
    }
  }
  return BeginLocked(call, takes_memory);
}

Error Device::Ended(Error error) {
  if (error != 0 && error != kNotReady) last_error = error;
  return error;
}

Error Device::LastError(bool forget) {
  const Lock lock(mu_);
  if (poison_ != 0) return poison_;
  return forget ? std::exchange(last_error, 0) : last_error;
}

void Device::SetScript(const char* text) {
  const Lock lock(mu_);
  script_.Read(text == nullptr ? "" : text);
}

void Device::At(const char* call, std::function<void()> then) {
  const Lock lock(mu_);
  at_[call] = std::move(then);
}

long Device::Calls(const char* call) {
  const Lock lock(mu_);
  return script_.calls(call);
}

long Device::Live(const char* kind) {
  const Lock lock(mu_);
  const std::string name = kind;
  int64_t host_bytes = 0;
  for (const auto& [data, block] : blocks_) {
    if (block.place == Place::kPinned) host_bytes += block.bytes;
  }
  if (name == "device_bytes") return device_bytes_;
  if (name == "host_bytes") return host_bytes;
  if (name == "streams") return streams_.size();
  if (name == "events") return events_.size();
  if (name == "graphs") return graphs_.size();
  if (name == "modules") return modules_.size();
  Violated("nothing is counted by the name " + name);
}

// Memory

Error Device::Allocate(Place place, void** data, size_t bytes) {
  const Lock lock(mu_);
  const size_t page = 4096;
  const size_t size = (std::max<size_t>(bytes, 1) + page - 1) / page * page;
  const int64_t free = script_.free_bytes() >= 0 ? script_.free_bytes()
                                                 : kTotalBytes - device_bytes_;
  if (place == Place::kDevice && static_cast<int64_t>(size) > free) {
    return kOutOfMemory;
  }
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  blocks_[static_cast<std::byte*>(memory)] = {size, place, false};
  if (place == Place::kDevice) device_bytes_ += size;
  *data = memory;
  return 0;
}

Error Device::Free(Place place, void* data) {
  if (data == nullptr) return 0;
  // As the driver does: what is enqueued may still use it.
  if (const Error error = SynchronizeAll(); error != 0) return error;
  const Lock lock(mu_);
  const auto found = blocks_.find(static_cast<std::byte*>(data));
  if (found == blocks_.end() || found->second.place != place) {
    Violated("memory is freed that was not allocated, or was freed before");
  }
  if (place == Place::kDevice) device_bytes_ -= found->second.bytes;
  if (!found->second.registered) munmap(data, found->second.bytes);
  blocks_.erase(found);
  return 0;
}

Error Device::Register(void* data, size_t bytes) {
  const Lock lock(mu_);
  blocks_[static_cast<std::byte*>(data)] = {bytes, Place::kPinned, true};
  return 0;
}

void Device::FreeAndTotal(size_t* free, size_t* total) {
  const Lock lock(mu_);
  *total = kTotalBytes;
  *free = script_.free_bytes() >= 0 ? script_.free_bytes()
                                    : kTotalBytes - device_bytes_;
}

Place Device::PlaceOf(const void* data) {
  const Lock lock(mu_);
  auto after = blocks_.upper_bound(static_cast<const std::byte*>(data));
  if (after == blocks_.begin()) return Place::kPageable;
  --after;
  return static_cast<const std::byte*>(data) <
                 after->first + after->second.bytes
             ? after->second.place
             : Place::kPageable;
}

void Device::CheckLive(const void* data, size_t bytes, const char* what) {
  auto after = blocks_.upper_bound(static_cast<const std::byte*>(data));
  if (after != blocks_.begin()) {
    --after;
    if (static_cast<const std::byte*>(data) + bytes <=
        after->first + after->second.bytes) {
      return;
    }
  }
  Violated(std::string(what) + " memory that is gone");
}

// Modules

void* Device::LoadModule() {
  const Lock lock(mu_);
  return *modules_.insert(new char).first;
}

Error Device::UnloadModule(void* module) {
  const Lock lock(mu_);
  if (modules_.erase(module) == 0) return kInvalidHandle;
  delete static_cast<char*>(module);
  return 0;
}

}  // namespace fake_cuda

extern "C" {

void fake_cuda_script(const char* text) {
  fake_cuda::Device::The().SetScript(text);
}
void fake_cuda_at(const char* call, void (*then)(void*), void* argument) {
  fake_cuda::Device::The().At(call, [=] { then(argument); });
}
long fake_cuda_calls(const char* call) {
  return fake_cuda::Device::The().Calls(call);
}
long fake_cuda_live(const char* kind) {
  return fake_cuda::Device::The().Live(kind);
}

}  // extern "C"
