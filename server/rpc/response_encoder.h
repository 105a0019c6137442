// From plain tensors to an answer's message.
//
// Messages are put together from slices rather than by protobuf, because a
// serialised `bytes` field is its tag, its length and the bytes as they are: a
// tensor of any size can be sent from where it lies. For a 600 KiB answer that
// halves the cost.
//
// Thread-safe: pure functions.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensor/tensor.h"
#include "wire/byte_chain.h"

namespace stoker {

struct ModelSpec;

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
                            ByteChain& message);

// A ModelStreamInferResponse that reports a failed request inside the stream.
ByteChain EncodeStreamError(const absl::Status& status, std::string_view id);

}  // namespace stoker
