// An inference that is a ModelInferRequest, and is answered by a
// ModelInferResponse or by a stream's.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rpc/infer_form.h"
#include "rpc/request_reader.h"
#include "rpc/response_encoder.h"
#include "tensor/tensor.h"
#include "wire/byte_chain.h"

namespace stoker {

class GrpcForm final : public InferForm {
 public:
  GrpcForm(const ByteChain& request, AnswerForm answer)
      : request_(request), answer_(answer) {}

  absl::Status Scan() override;
  size_t request_bytes() const override { return request_.bytes().size(); }
  size_t copied_bytes() const override { return request_.joined_bytes(); }
  bool TakesLong() const override;
  size_t parse_limit() const override { return request_.parse_limit(); }
  absl::Status Parse() override;
  size_t parsed_memory() const override { return request_.parsed_memory(); }
  const RequestView& view() const override { return request_.view(); }
  void Release() override { request_.Release(); }
  absl::Status Write(const ModelSpec& spec, std::string_view id,
                     absl::Span<const int> outputs,
                     absl::Span<const Tensor> tensors,
                     ByteChain& message) override {
    return EncodeResponse(spec, id, outputs, tensors, answer_, message);
  }
  bool keeps_id() const override { return answer_ == AnswerForm::kStream; }

 private:
  RequestReader request_;
  const AnswerForm answer_;
};

}  // namespace stoker
