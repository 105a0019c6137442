// The JSON of an inference's answer over HTTP, written piece by piece. Numbers
// are the shortest that say the same element.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tensor/tensor.h"
#include "wire/byte_chain.h"

namespace stoker {

struct ModelSpec;

// Memory that its elements take as JSON, at most.
size_t JsonLimit(const Tensor& tensor);

// The text in quotes, escaped.
void AppendJsonText(std::string_view text, std::string& out);

// The tensor's bytes: where they lie, if they are many.
void AppendTensor(const Tensor& tensor, ByteChain& message);

class JsonAnswer {
 public:
  JsonAnswer(const ModelSpec& spec, std::string_view id);

  // For each output: its beginning, what it holds, its end.
  void BeginOutput(std::string_view name, const Tensor& tensor);
  // INVALID_ARGUMENT: JSON has no such elements.
  absl::Status AddElements(std::string_view name, const Tensor& tensor);
  void AddBinarySize(size_t size);
  void EndOutput() { text_.push_back('}'); }
  // Call once, last.
  std::string Take();

 private:
  void AddTexts(const Tensor& tensor);

  std::string text_;
  bool has_outputs_ = false;
};

}  // namespace stoker
