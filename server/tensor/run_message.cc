#include "tensor/run_message.h"

#include <algorithm>
#include <utility>

#include "base/absl_view.h"
#include "base/status_macros.h"
#include "tensor/tensor_file.h"

namespace stoker {
namespace {

// A byte ahead of the rest: the number of threads, or the status' code.
constexpr int kMaxByte = 255;

std::string WithByte(int byte, std::string_view rest) {
  std::string message(1, static_cast<char>(byte));
  message.append(rest);
  return message;
}

absl::StatusOr<std::vector<Tensor>> Tensors(const std::string& message) {
  ASSIGN_OR_RETURN(const NamedTensors named,
                   ParseTensorFile(message.substr(1)));
  return InOrder(named);
}

}  // namespace

absl::StatusOr<std::string> EncodeRequest(int threads,
                                          absl::Span<const Tensor> inputs) {
  ASSIGN_OR_RETURN(const std::string file, TensorFileBytes(Numbered(inputs)));
  return WithByte(std::min(threads, kMaxByte), file);
}

absl::StatusOr<RunRequest> DecodeRequest(const std::string& message) {
  if (message.empty()) return absl::InternalError("an empty message");
  RunRequest request;
  request.threads = static_cast<unsigned char>(message[0]);
  ASSIGN_OR_RETURN(request.inputs, Tensors(message));
  return request;
}

std::string EncodeReply(const absl::StatusOr<std::vector<Tensor>>& outputs) {
  if (!outputs.ok()) {
    const absl::Status& status = outputs.status();
    return WithByte(static_cast<int>(status.code()), Std(status.message()));
  }
  const absl::StatusOr<std::string> file = TensorFileBytes(Numbered(*outputs));
  return file.ok() ? WithByte(0, *file) : EncodeReply(file.status());
}

absl::StatusOr<std::vector<Tensor>> DecodeReply(const std::string& message) {
  if (message.empty()) return absl::InternalError("an empty message");
  const int code = static_cast<unsigned char>(message[0]);
  if (code != 0) {
    return absl::Status(static_cast<absl::StatusCode>(code),
                        absl::string_view(message).substr(1));
  }
  absl::StatusOr<std::vector<Tensor>> outputs = Tensors(message);
  if (outputs.ok()) return outputs;
  return absl::InternalError(outputs.status().message());
}

std::string EncodeLength(uint64_t bytes) {
  std::string text(kPrefixBytes, '\0');
  for (size_t i = 0; i < kPrefixBytes; ++i) {
    text[i] = static_cast<char>(bytes >> (8 * i));
  }
  return text;
}

uint64_t DecodeLength(std::string_view text) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < kPrefixBytes; ++i) {
    bytes |= uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
  }
  return bytes;
}

}  // namespace stoker
