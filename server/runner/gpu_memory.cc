#include "runner/gpu_memory.h"

#include <algorithm>
#include <numeric>
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

void GpuMemory::Books::AddLocked(GpuUse use, int64_t more) {
  int64_t& sum = bytes[IndexOf(use)];
  sum += more;
  std::optional<Gauge>& gauge = gauges[IndexOf(use)];
  if (gauge) gauge->Set(static_cast<double>(sum));
}

void GpuMemory::Books::KeepLocked(GpuUse use, int64_t promise) {
  promised[IndexOf(use)] -= promise;
  kept += promise;
}

int64_t GpuMemory::Books::PromisedLocked() const {
  return std::accumulate(promised.begin(), promised.end(), int64_t{0});
}

class GpuMemory::Held : public Holding {
 public:
  // `promised`: of these bytes.
  Held(std::shared_ptr<Books> books, GpuUse use, int64_t bytes,
       int64_t promised)
      : books_(std::move(books)),
        use_(use),
        bytes_(bytes),
        promised_(promised) {}
  ~Held() override {
    const absl::MutexLock lock(&books_->mu);
    books_->KeepLocked(use_, promised_);
    books_->AddLocked(use_, -bytes_);
  }
  void Taken() override {
    const absl::MutexLock lock(&books_->mu);
    books_->KeepLocked(use_, std::exchange(promised_, 0));
  }

 private:
  const std::shared_ptr<Books> books_;
  const GpuUse use_;
  const int64_t bytes_;
  int64_t promised_ ABSL_GUARDED_BY(books_->mu);
};

GpuMemory::GpuMemory(std::string device, int64_t total_bytes,
                     MetricRegistry* metrics)
    : device_(std::move(device)),
      total_bytes_(total_bytes),
      books_(std::make_shared<Books>(metrics, device_)) {}

absl::StatusOr<GpuMemory::Claim> GpuMemory::Take(
    GpuUse use, absl::string_view whose, int64_t bytes,
    absl::FunctionRef<int64_t()> free_bytes) {
  int64_t kept_before = 0;
  {
    const absl::MutexLock lock(&books_->mu);
    kept_before = books_->kept;
  }
  const int64_t free = free_bytes();
  const absl::MutexLock lock(&books_->mu);
  // What others kept since the question may still have been free then.
  const int64_t promised =
      books_->PromisedLocked() + books_->kept - kept_before;
  if (bytes + kReserve > free - promised) {
    return absl::ResourceExhaustedError(
        Refusal(use, whose, bytes, free, promised));
  }
  books_->AddLocked(use, bytes);
  books_->promised[IndexOf(use)] += bytes;
  return std::make_shared<Held>(books_, use, bytes, bytes);
}

std::string GpuMemory::Refusal(GpuUse use, absl::string_view whose,
                               int64_t bytes, int64_t free_bytes,
                               int64_t promised) const {
  std::string uses;
  int64_t other = total_bytes_ - free_bytes + promised;
  for (size_t i = 0; i < kUseNames.size(); ++i) {
    const int64_t sum = books_->bytes[i];
    other -= sum;
    absl::StrAppend(&uses, kUseNames[i], " ", Gib(sum), ", ");
  }
  return absl::StrCat(
      kUseNames[IndexOf(use)], " of ", whose, " take ", Gib(bytes), " GiB, of ",
      device_, "'s ", Gib(total_bytes_), " are ", Gib(free_bytes - promised),
      " free: ", uses, "other ", Gib(std::max<int64_t>(other, 0)), ", and ",
      Gib(kReserve), " have to stay free");
}

GpuMemory::Claim GpuMemory::Note(GpuUse use, int64_t bytes) {
  const absl::MutexLock lock(&books_->mu);
  books_->AddLocked(use, bytes);
  return std::make_shared<Held>(books_, use, bytes, 0);
}

int64_t GpuMemory::used(GpuUse use) const {
  const absl::MutexLock lock(&books_->mu);
  return books_->bytes[IndexOf(use)];
}

int64_t GpuMemory::taken(GpuUse use) const {
  const absl::MutexLock lock(&books_->mu);
  return books_->bytes[IndexOf(use)] - books_->promised[IndexOf(use)];
}

}  // namespace stoker
