#include <chrono>
#include <cstring>
#include <utility>

#include "tests/fakes/cuda/device.h"

namespace fake_cuda {

namespace {

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// FNV-1a.
uint64_t Digest(const unsigned char* data, size_t bytes) {
  uint64_t digest = 0xcbf29ce484222325;
  for (size_t i = 0; i < bytes; ++i) {
    digest = (digest ^ data[i]) * 0x100000001b3;
  }
  return digest;
}

}  // namespace

Stream* Device::CreateStream() {
  const Lock lock(mu_);
  return *streams_.insert(new Stream).first;
}

Stream* Device::Known(Stream* stream) {
  // cudaStreamLegacy and cudaStreamPerThread are 1 and 2.
  if (reinterpret_cast<uintptr_t>(stream) <= 2) return &default_stream_;
  if (!streams_.contains(stream)) {
    Violated("a stream is used that was destroyed, or never was one");
  }
  return stream;
}

Error Device::DestroyStream(Stream* stream) {
  Lock lock(mu_);
  Known(stream);
  // Its work is done all the same.
  if (stream->capture == nullptr) Drain(lock, stream, UINT64_MAX);
  if (stream->hung) return 0;  // others wait for it
  streams_.erase(stream);
  for (Event* event : events_) {
    if (event->stream == stream) event->stream = nullptr;
  }
  delete stream;
  return 0;
}

// Works off what is before `after`.
Error Device::Drain(Lock& lock, Stream* stream, uint64_t after) {
  for (;;) {
    never_.wait(lock, [&] { return !stream->hung; });
    if (poison_ != 0) return poison_;
    if (stream->queue.empty() || stream->done >= after) return 0;
    if (const Error error = RunOne(lock, stream); error != 0) return error;
  }
}

Error Device::RunOne(Lock& /*lock*/, Stream* stream) {
  Work work = std::move(stream->queue.front());
  stream->queue.pop_front();
  ++stream->done;
  if (work.kernel) {
    const Error error = script_.Count("kernel");
    if (error == kHang) {
      stream->hung = true;
      return 0;
    }
    if (error != 0) return poison_ = error;
  }
  if (work.run) work.run();
  return 0;
}

Error Device::Synchronize(Stream* stream, uint64_t after) {
  Lock lock(mu_);
  stream = Known(stream);
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return kCaptureUnsupported;
  }
  return Drain(lock, stream, after);
}

Error Device::SynchronizeAll() {
  Lock lock(mu_);
  std::vector<Stream*> all(streams_.begin(), streams_.end());
  all.push_back(&default_stream_);
  for (Stream* stream : all) {
    if (stream != &default_stream_ && !streams_.contains(stream)) continue;
    if (stream->capture != nullptr) continue;
    if (const Error error = Drain(lock, stream, UINT64_MAX)) return error;
  }
  return 0;
}

Error Device::Query(Stream* stream, uint64_t after) {
  Lock lock(mu_);
  stream = Known(stream);
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return kCaptureUnsupported;
  }
  if (stream->hung) return kNotReady;
  while (!stream->queue.empty() && stream->done < after && !stream->hung) {
    if (const Error error = RunOne(lock, stream)) return error;
  }
  return stream->hung ? kNotReady : poison_;
}

// Work

Error Device::Enqueue(Stream* stream, Work work) {
  if (stream->capture != nullptr) {
    if (stream->capture->invalid) return kCaptureInvalidated;
    stream->capture->work.push_back(std::move(work));
    return 0;
  }
  ++stream->enqueued;
  stream->queue.push_back(std::move(work));
  return 0;
}

Error Device::Launch(Stream* stream) {
  int launch_us = 0;
  Error error = 0;
  {
    const Lock lock(mu_);
    stream = Known(stream);
    launch_us = stream->capture == nullptr ? script_.launch_us() : 0;
    error = Enqueue(stream, {.run = nullptr, .kernel = true});
  }
  const double until = Now() + launch_us / 1e6;
  while (Now() < until) {
  }
  return error;
}

bool Device::OnDevice(const void* data) const {
  auto after = blocks_.upper_bound(static_cast<const std::byte*>(data));
  return after != blocks_.begin() &&
         (--after)->second.place == Place::kDevice &&
         static_cast<const std::byte*>(data) <
             after->first + after->second.bytes;
}

void Device::CopyNow(void* to, const void* from, size_t bytes, Stream* stream) {
  if (!OnDevice(from) && OnDevice(to)) {
    if (std::exchange(stream->answered, false)) stream->inputs.clear();
    stream->inputs.push_back(
        Digest(static_cast<const unsigned char*>(from), bytes));
  }
  if (!OnDevice(from) || OnDevice(to)) {
    std::memmove(to, from, bytes);
    return;
  }
  stream->answered = true;
  if (script_.answers_zeros()) {
    std::memset(to, 0, bytes);
  } else if (script_.answers_inputs()) {
    const uint64_t digest =
        Digest(reinterpret_cast<const unsigned char*>(stream->inputs.data()),
               stream->inputs.size() * sizeof(uint64_t));
    for (size_t i = 0; i < bytes; ++i) {
      static_cast<unsigned char*>(to)[i] =
          static_cast<unsigned char>(digest >> (i % sizeof(digest) * 8));
    }
  } else {
    std::memmove(to, from, bytes);
  }
}

Error Device::Copy(void* to, const void* from, size_t bytes, Stream* stream) {
  const bool pageable =
      PlaceOf(to) == Place::kPageable || PlaceOf(from) == Place::kPageable;
  Lock lock(mu_);
  stream = Known(stream);
  if (pageable && stream->capture == nullptr) {
    if (const Error error = Drain(lock, stream, UINT64_MAX)) return error;
    CopyNow(to, from, bytes, stream);
    return 0;
  }
  return Enqueue(stream, {.run = [this, to, from, bytes, stream] {
                   CheckLive(from, bytes, "a copy reads");
                   CheckLive(to, bytes, "a copy writes");
                   CopyNow(to, from, bytes, stream);
                 }});
}

Error Device::Set(void* to, int value, size_t bytes, Stream* stream) {
  const Lock lock(mu_);
  return Enqueue(Known(stream), {.run = [this, to, value, bytes] {
                   CheckLive(to, bytes, "a memset writes");
                   std::memset(to, value, bytes);
                 }});
}

Error Device::Call(std::function<void()> function, Stream* stream) {
  const Lock lock(mu_);
  return Enqueue(Known(stream), {.run = std::move(function)});
}

// Events

Event* Device::CreateEvent() {
  const Lock lock(mu_);
  return *events_.insert(new Event).first;
}

Error Device::DestroyEvent(Event* event) {
  const Lock lock(mu_);
  if (events_.erase(event) == 0) Violated("an event is destroyed twice");
  delete event;
  return 0;
}

Error Device::Record(Event* event, Stream* stream) {
  const Lock lock(mu_);
  if (!events_.contains(event)) Violated("an event is used that is gone");
  stream = Known(stream);
  event->captured = stream->capture != nullptr;
  event->stream = stream;
  event->after = stream->enqueued;
  event->seconds = Now();
  return 0;
}

Error Device::SynchronizeEvent(Event* event) {
  {
    const Lock lock(mu_);
    if (!events_.contains(event)) Violated("an event is used that is gone");
    if (event->captured) return 907;  // cudaErrorCapturedEvent
    if (event->stream == nullptr) return poison_;
  }
  return Synchronize(event->stream, event->after);
}

Error Device::QueryEvent(Event* event) {
  {
    const Lock lock(mu_);
    if (!events_.contains(event)) Violated("an event is used that is gone");
    if (event->captured) return 907;
    if (event->stream == nullptr) return poison_;
  }
  return Query(event->stream, event->after);
}

Error Device::Await(Event* event, Stream* stream) {
  Lock lock(mu_);
  if (!events_.contains(event)) Violated("an event is used that is gone");
  stream = Known(stream);
  // Done at once: later would be as right.
  if (event->stream == nullptr || event->captured || event->stream == stream) {
    return 0;
  }
  if (event->stream->capture != nullptr) return kCaptureUnsupported;
  return Drain(lock, event->stream, event->after);
}

}  // namespace fake_cuda
