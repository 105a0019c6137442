// An inference over HTTP: a request that is JSON, with elements in it or behind
// it in binary form, and an answer of the same kind. Elements in binary form
// are used where they lie and sent from where they lie.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rpc/infer_form.h"
#include "rpc/json_request.h"
#include "rpc/message_bytes.h"
#include "rpc/request_reader.h"
#include "tensor/tensor.h"
#include "wire/byte_chain.h"
#include "wire/encoding.h"

namespace stoker {

class HttpForm final : public InferForm {
 public:
  // `json_size`: of the body's beginning; nullopt: all of it is JSON.
  // `coding`: of the answer.
  HttpForm(const ByteChain& body, std::string model, std::string version,
           std::optional<size_t> json_size, Encoding coding);

  absl::Status Scan() override;
  size_t request_bytes() const override { return bytes_.size(); }
  size_t copied_bytes() const override { return 0; }
  bool TakesLong() const override;
  size_t parse_limit() const override { return JsonReadLimit(json_size_); }
  absl::Status Parse() override;
  size_t parsed_memory() const override { return MemoryOf(json_); }
  const RequestView& view() const override { return view_; }
  void Release() override;
  size_t AnswerLimit(absl::Span<const int> outputs,
                     absl::Span<const Tensor> tensors) const override;
  absl::Status Write(const ModelSpec& spec, std::string_view id,
                     absl::Span<const int> outputs,
                     absl::Span<const Tensor> tensors,
                     ByteChain& message) override;

  // Of the answer that was written: the size of its JSON where binary elements
  // are behind it, and how it is compressed.
  const std::optional<size_t>& answer_json_size() const {
    return answer_json_size_;
  }
  Encoding answer_coding() const { return answer_coding_; }

 private:
  enum class Place { kJson, kBinary, kShared };

  std::string_view Text(std::string& copy) const;
  absl::Status FindElements();
  Place PlaceOf(size_t position) const;

  MessageBytes bytes_;
  const std::string model_, version_;
  size_t json_size_ = 0;
  const bool has_binary_;
  const Encoding coding_;
  JsonRequest json_;
  RequestView view_;
  std::vector<Place> places_;  // of the outputs; empty: all are alike
  bool binary_outputs_ = false;
  std::optional<size_t> answer_json_size_;
  Encoding answer_coding_ = Encoding::kIdentity;
};

}  // namespace stoker
