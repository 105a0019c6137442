// From a request's message to plain tensors; rpc/response_encoder.h is the way
// back. Not here: the bounds of dimensions, which ModelHandle::Submit knows.
//
// Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/request_reader.h"
#include "rpc/requested_outputs.h"
#include "rpc/shared_memory.h"
#include "tensor/shape_bucket.h"
#include "tensor/tensor.h"

namespace stoker {

struct ModelSpec;

struct DecodedRequest {
  std::vector<Tensor>
      inputs;            // in the model's order: its dtypes, ranks, constants
  DimensionSizes sizes;  // per dimension of the model; equal over all inputs
  int64_t rows = 1;      // size of the batch dimension, or 1
  OutputIndices outputs;
  // Where to write each of these outputs instead of sending it; a null region:
  // it is sent. Empty: all are.
  std::vector<SharedMemoryRange> shared_outputs;
  // How many of the largest elements each of these outputs is answered by; 0:
  // by all. Empty: all are.
  std::vector<size_t> classes;
  absl::Duration timeout = absl::InfiniteDuration();  // in the queue
  uint64_t priority = 0;  // in the queue; 0: the model's default
};

// Asked when a request is known to be right but for its elements: whether it
// may have so many bytes for copies of tensors that are scattered or in shared
// memory, for inputs that are made here, and for its answer. Before that for
// the copy of each input of BYTES, whose elements say what shape it has.
using Admit = absl::FunctionRef<absl::Status(size_t bytes)>;

// Checks a request against a model and finds its tensors. They are views of the
// request's bytes wherever that is possible, aligned or not, and hold `owner`,
// which must keep the request alive. Allocates in proportion to what arrived,
// never to what a shape claims. `regions`: clients' shared memory; null where
// it isn't allowed. INVALID_ARGUMENT; NOT_FOUND for a region; UNIMPLEMENTED for
// parameters of features that are not offered; what `admit` refuses with.
absl::StatusOr<DecodedRequest> DecodeRequest(
    const RequestView& request, const ModelSpec& spec,
    const SharedMemoryRegions* regions,
    const std::shared_ptr<const void>& owner, Admit admit);

}  // namespace stoker
