#include "base/memory_watch.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace stoker {
namespace {

constexpr double kHalf = 0.5;
constexpr double kMuch = 0.9;
constexpr double kAgain = 0.8;

double Gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

}  // namespace

MemoryWatch::MemoryWatch(Read read, Tell tell, Clock& clock)
    : read_(std::move(read)), tell_(std::move(tell)), clock_(clock) {
  if (read_().has_value()) thread_ = Thread("memory", [this] { Loop(); });
}

MemoryWatch::~MemoryWatch() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.Join();
}

void MemoryWatch::Loop() {
  bool told = false;
  for (;;) {
    absl::Duration period = kPeriod;
    if (const std::optional<GroupMemory> memory = read_()) {
      const double part = static_cast<double>(memory->used) /
                          static_cast<double>(memory->limit);
      if (part > kMuch && !std::exchange(told, true)) tell_(*memory);
      if (part < kAgain) told = false;
      if (part > kHalf) period = kCloserPeriod;
    }
    absl::MutexLock lock(&mu_);
    if (clock_.AwaitWithDeadline(&mu_, absl::Condition(&stopping_),
                                 clock_.Now() + period)) {
      return;
    }
  }
}

std::string NearlyOutOfMemory(const GroupMemory& memory, int64_t own_bytes) {
  return absl::StrFormat(
      "memory is nearly out: %.2f of %.2f GiB are in use, %.2f GiB of it by "
      "stokerd itself; at the limit the kernel ends it without another word "
      "(exit code 137). Raise the limit, or lower --max-request-memory-mb, "
      "--compile-jobs, or a model's instances or buckets",
      Gib(memory.used), Gib(memory.limit), Gib(own_bytes));
}

}  // namespace stoker
