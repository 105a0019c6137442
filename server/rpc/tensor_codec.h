// Between the wire's messages and plain tensors. Not here: the bounds of
// dimensions, which ModelHandle::Submit knows.
//
// Thread-safe: pure functions.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/request_reader.h"
#include "tensor/shape_bucket.h"
#include "tensor/tensor.h"

namespace stoker {

struct ModelSpec;

// Of a model, in the order of the answer.
using OutputIndices = absl::InlinedVector<int, 4>;

struct DecodedRequest {
  std::vector<Tensor>
      inputs;            // in the model's order: its dtypes, ranks, constants
  DimensionSizes sizes;  // per dimension of the model; equal over all inputs
  int64_t rows = 1;      // size of the batch dimension, or 1
  OutputIndices outputs;
  absl::Duration timeout = absl::InfiniteDuration();  // in the queue
  uint64_t priority = 0;  // in the queue; 0: the model's default
};

// Asked once, when a request is known to be right but for its elements: whether
// it may have so many bytes for copies of scattered tensors and for its answer.
using Admit = absl::FunctionRef<absl::Status(size_t bytes)>;

// Checks a request against a model and finds its tensors. They are views of the
// request's bytes wherever that is possible, aligned or not, and hold `owner`,
// which must keep the request alive. Allocates in proportion to what arrived,
// never to what a shape claims. INVALID_ARGUMENT; UNIMPLEMENTED for parameters
// of features that are not offered; what `admit` refuses with.
absl::StatusOr<DecodedRequest> DecodeRequest(const RequestView& request,
                                             const ModelSpec& spec,
                                             std::shared_ptr<const void> owner,
                                             Admit admit);

// What an answer is wrapped in.
enum class AnswerForm {
  kUnary,   // ModelInferResponse
  kStream,  // ModelStreamInferResponse
};

// Sets `message` to the serialised answer: `outputs` are indices into the
// model's outputs and into `tensors`. Large tensors are not copied; the message
// shares them with their owners. INVALID_ARGUMENT when it would exceed
// protobuf's 2 GiB.
absl::Status EncodeResponse(const ModelSpec& spec, std::string_view id,
                            absl::Span<const int> outputs,
                            absl::Span<const Tensor> tensors, AnswerForm form,
                            grpc::ByteBuffer& message);

// A ModelStreamInferResponse that reports a failed request inside the stream.
grpc::ByteBuffer EncodeStreamError(const absl::Status& status,
                                   std::string_view id);

}  // namespace stoker
