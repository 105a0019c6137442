// What a process is asked to run, and what it answers: a message between two
// processes of this server, each behind its length.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensor/tensor.h"

namespace stoker {

struct RunRequest {
  int threads = 1;  // to compute on
  std::vector<Tensor> inputs;
};

// INVALID_ARGUMENT for a dtype that can't be sent (tensor/tensor_file.h).
absl::StatusOr<std::string> EncodeRequest(int threads,
                                          absl::Span<const Tensor> inputs);
absl::StatusOr<RunRequest> DecodeRequest(const std::string& message);

// Outputs, or why there are none.
std::string EncodeReply(const absl::StatusOr<std::vector<Tensor>>& outputs);
// The status that was encoded; INTERNAL for what is no reply.
absl::StatusOr<std::vector<Tensor>> DecodeReply(const std::string& message);

// The length goes ahead, in kPrefixBytes, little endian.
inline constexpr size_t kPrefixBytes = 8;
std::string EncodeLength(uint64_t bytes);
// `text` has kPrefixBytes.
uint64_t DecodeLength(std::string_view text);

}  // namespace stoker
