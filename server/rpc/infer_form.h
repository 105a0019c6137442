// The form in which one inference comes and goes: how its request is read, and
// how its answer is written. What is between the two is the same for all.
//
// Not thread-safe while it reads; afterwards any thread may look at the view,
// and one may write the answer.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rpc/request_reader.h"
#include "tensor/tensor.h"
#include "wire/byte_chain.h"

namespace stoker {

struct ModelSpec;

class InferForm {
 public:
  virtual ~InferForm() = default;

  // ---- the request, in this order

  // Finds what costs next to nothing to find. Not OK: the request is refused.
  virtual absl::Status Scan() = 0;
  // Bytes of the request, and of what Scan copied of it.
  virtual size_t request_bytes() const = 0;
  virtual size_t copied_bytes() const = 0;
  // Whether what is left would keep a loop for too long.
  virtual bool TakesLong() const = 0;
  // Memory that Parse may take; 0: there is nothing to parse.
  virtual size_t parse_limit() const = 0;
  virtual absl::Status Parse() = 0;
  // Memory that it took.
  virtual size_t parsed_memory() const = 0;
  // What it shows is there until Release.
  virtual const RequestView& view() const = 0;
  virtual void Release() = 0;

  // ---- the answer

  // Memory that writing it takes besides the tensors.
  virtual size_t AnswerLimit(absl::Span<const int> /*outputs*/,
                             absl::Span<const Tensor> /*tensors*/) const {
    return 0;
  }
  // As EncodeResponse in rpc/response_encoder.h.
  virtual absl::Status Write(const ModelSpec& spec, std::string_view id,
                             absl::Span<const int> outputs,
                             absl::Span<const Tensor> tensors,
                             ByteChain& message) = 0;
  // Whether who is told of an error wants the request's id.
  virtual bool keeps_id() const { return false; }
};

}  // namespace stoker
