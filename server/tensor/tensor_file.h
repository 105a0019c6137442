// Named tensors in one file, in the safetensors format
// (https://github.com/huggingface/safetensors): 8 bytes of little-endian header
// length, a JSON object name -> {dtype, shape, data_offsets}, the bytes. What a
// check leaves for people to look at, and how it talks to Python.
//
// Pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensor/tensor.h"

namespace stoker {

// Sorted by name. No name may be "__metadata__".
using NamedTensors = std::map<std::string, Tensor>;

// A list of tensors as named ones, "0", "1" and so on, and the way back, which
// is INTERNAL where a number is missing.
NamedTensors Numbered(absl::Span<const Tensor> tensors);
absl::StatusOr<std::vector<Tensor>> InOrder(const NamedTensors& numbered);

// The file's content. INVALID_ARGUMENT for a dtype that the format lacks
// (BYTES).
absl::StatusOr<std::string> TensorFileBytes(const NamedTensors& tensors);

// The tensors own their memory, 64-byte aligned. INVALID_ARGUMENT, with the
// tensor's name, for content that is not of the format.
absl::StatusOr<NamedTensors> ParseTensorFile(const std::string& content);

}  // namespace stoker
