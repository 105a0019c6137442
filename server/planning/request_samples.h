// Whole requests, values and all, that were drawn from a model's traffic: what
// candidates are compared on beside made-up inputs, where model.yaml allows it
// (parity.recorded).
//
// Each request since the start is as likely to be among them as any other
// (Vitter, Random Sampling with a Reservoir, algorithm R, 1985). Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "tensor/shape_bucket.h"
#include "tensor/tensor_file.h"

namespace stoker {

struct SampledRequest {
  DimensionSizes sizes;  // one per dimension of the model
  NamedTensors inputs;   // by input name; they own their memory
};

class RequestSamples {
 public:
  static constexpr size_t kMost = 64;
  // Of one request; larger ones are passed over.
  static constexpr size_t kMaxBytes = size_t{1} << 20;

  // Keeps up to `most` (0 to kMost) requests, beginning with those of `kept`,
  // which later ones replace.
  RequestSamples(size_t most, std::vector<SampledRequest> kept);

  // Whether the next request is drawn: asked once for each. Nanoseconds.
  bool Draw();
  // Of a request that is drawn. Copies its inputs, of which `names` are the
  // names.
  void Keep(const DimensionSizes& sizes, absl::Span<const std::string> names,
            absl::Span<const Tensor> inputs) ABSL_LOCKS_EXCLUDED(mu_);

  std::vector<SampledRequest> Read() const ABSL_LOCKS_EXCLUDED(mu_);
  // Grows with each Keep.
  uint64_t changes() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const size_t most_;
  std::atomic<uint64_t> seen_ = 0;
  mutable absl::Mutex mu_;
  std::vector<SampledRequest> kept_ ABSL_GUARDED_BY(mu_);
  uint64_t changes_ ABSL_GUARDED_BY(mu_) = 0;
};

// A tensor file (tensor/tensor_file.h). ParseSamples is INVALID_ARGUMENT for
// anything that SamplesToBytes can't have written.
absl::StatusOr<std::string> SamplesToBytes(
    const std::vector<SampledRequest>& samples);
absl::StatusOr<std::vector<SampledRequest>> ParseSamples(
    const std::string& bytes);

}  // namespace stoker
