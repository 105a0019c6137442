// What a GPU's memory is used for, by use. Memory is accounted before it is
// taken, so that what can't fit is refused with the figures and nothing is half
// there. Knows numbers, not CUDA.
//
// Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "metrics/metrics.h"

namespace stoker {

enum class GpuUse {
  kWeights,  // of versions, shared by all their buckets and instances
  kEager,    // the copy that the eager form has of its own
  kGraphs,   // captured graphs: their pools and fixed inputs
};

class GpuMemory {
 public:
  // `device`: "cuda:0". The registry may be null.
  GpuMemory(std::string device, int64_t total_bytes, MetricRegistry* metrics);

  // Accounted until the last copy is gone; it may outlive this object.
  class Holding {
   public:
    virtual ~Holding() = default;
    // The memory has been allocated: the driver doesn't call it free any more.
    // Until then, it is promised: nobody else is given it.
    virtual void Taken() = 0;
  };
  using Claim = std::shared_ptr<Holding>;

  // `free_bytes` asks the driver; it is called without a lock.
  // RESOURCE_EXHAUSTED with the arithmetic when less than `bytes` and a reserve
  // for the libraries' own are free and not promised to others.
  absl::StatusOr<Claim> Take(GpuUse use, absl::string_view whose, int64_t bytes,
                             absl::FunctionRef<int64_t()> free_bytes);

  // Bytes of memory that was measured after it had been taken.
  Claim Note(GpuUse use, int64_t bytes);

  int64_t used(GpuUse use) const;
  // Of these, what has been allocated.
  int64_t taken(GpuUse use) const;

  // Stays free: workspaces of cuBLAS and cuDNN, code, what runs need meanwhile.
  static constexpr int64_t kReserve = int64_t{256} << 20;

 private:
  struct Books {
    explicit Books(MetricRegistry* metrics, const std::string& device);
    void AddLocked(GpuUse use, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
    void KeepLocked(GpuUse use, int64_t promised)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
    int64_t PromisedLocked() const ABSL_SHARED_LOCKS_REQUIRED(mu);
    mutable absl::Mutex mu;
    std::array<int64_t, 3> bytes ABSL_GUARDED_BY(mu) = {};
    std::array<int64_t, 3> promised ABSL_GUARDED_BY(mu) = {};
    // Ever: what a caller's question to the driver may have missed.
    int64_t kept ABSL_GUARDED_BY(mu) = 0;
    std::array<std::optional<Gauge>, 3> gauges ABSL_GUARDED_BY(mu);
  };
  class Held;
  std::string Refusal(GpuUse use, absl::string_view whose, int64_t bytes,
                      int64_t free_bytes, int64_t promised) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(books_->mu);

  const std::string device_;
  const int64_t total_bytes_;
  const std::shared_ptr<Books> books_;
};

}  // namespace stoker
