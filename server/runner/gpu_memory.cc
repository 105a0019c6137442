#include "runner/gpu_memory.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "metrics/catalog.h"

namespace stoker {
namespace {

constexpr std::array<const char*, 3> kUseNames = {"weights", "eager", "graphs"};

size_t IndexOf(GpuUse use) { return static_cast<size_t>(use); }

std::string Gib(int64_t bytes) {
  return absl::StrFormat("%.2f", static_cast<double>(bytes) / double{1 << 30});
}

}  // namespace

GpuMemory::Books::Books(MetricRegistry* metrics, const std::string& device) {
  if (metrics == nullptr) return;
  const absl::MutexLock lock(&mu);
  for (size_t i = 0; i < kUseNames.size(); ++i) {
    gauges[i] = metrics->Gauge(metric::kGpuMemory,
                               {{"device", device}, {"use", kUseNames[i]}});
  }
}

void GpuMemory::Books::Add(GpuUse use, int64_t more) {
  const absl::MutexLock lock(&mu);
  int64_t& sum = bytes[IndexOf(use)];
  sum += more;
  std::optional<Gauge>& gauge = gauges[IndexOf(use)];
  if (gauge) gauge->Set(static_cast<double>(sum));
}

GpuMemory::GpuMemory(std::string device, int64_t total_bytes,
                     MetricRegistry* metrics)
    : device_(std::move(device)),
      total_bytes_(total_bytes),
      books_(std::make_shared<Books>(metrics, device_)) {}

absl::StatusOr<GpuMemory::Claim> GpuMemory::Take(GpuUse use,
                                                 absl::string_view whose,
                                                 int64_t bytes,
                                                 int64_t free_bytes) {
  if (bytes + kReserve <= free_bytes) return Note(use, bytes);
  std::string uses;
  int64_t other = total_bytes_ - free_bytes;
  for (size_t i = 0; i < kUseNames.size(); ++i) {
    const int64_t sum = used(static_cast<GpuUse>(i));
    other -= sum;
    absl::StrAppend(&uses, kUseNames[i], " ", Gib(sum), ", ");
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      kUseNames[IndexOf(use)], " of ", whose, " take ", Gib(bytes), " GiB, of ",
      device_, "'s ", Gib(total_bytes_), " are ", Gib(free_bytes),
      " free: ", uses, "other ", Gib(std::max<int64_t>(other, 0)), ", and ",
      Gib(kReserve), " have to stay free"));
}

GpuMemory::Claim GpuMemory::Note(GpuUse use, int64_t bytes) {
  books_->Add(use, bytes);
  return Claim(books_.get(), [books = books_, use, bytes](const void*) {
    books->Add(use, -bytes);
  });
}

int64_t GpuMemory::used(GpuUse use) const {
  const absl::MutexLock lock(&books_->mu);
  return books_->bytes[IndexOf(use)];
}

}  // namespace stoker
