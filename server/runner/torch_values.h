// Between our plain Tensor and torch's. Private to this room: torch types go no
// further.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "program/scalar_type.h"
#include "program/stored_tensor.h"
#include "tensor/tensor.h"

namespace stoker {

// torch's name for a dtype that a program's tensors are stored in.
at::ScalarType ToTorch(ScalarType type);

// A view of a program's tensor whose first element is at `data`, on `device`;
// nothing is copied.
at::Tensor ViewOfStored(const StoredTensor& stored, void* data,
                        c10::Device device);

// A view of `tensor`'s bytes, which must outlive it; nothing is copied.
// INVALID_ARGUMENT for kBytes, or when byte_size and shape disagree.
absl::StatusOr<at::Tensor> ViewAsTorch(const Tensor& tensor);

// The views of all `inputs`.
absl::StatusOr<std::vector<at::Tensor>> ViewAllAsTorch(
    absl::Span<const Tensor> inputs);

// A contiguous Tensor that owns its memory through `value` and keeps `lender`,
// whose memory `value` may show, alive. An output that shows memory of `inputs`
// is copied: inputs don't have to outlive the run. INTERNAL for an element type
// that the wire doesn't have.
absl::StatusOr<Tensor> FromTorch(at::Tensor value,
                                 absl::Span<const at::Tensor> inputs,
                                 std::shared_ptr<const void> lender);

// Likewise all of them.
absl::StatusOr<std::vector<Tensor>> AllFromTorch(
    std::vector<at::Tensor> values, absl::Span<const at::Tensor> inputs,
    const std::shared_ptr<const void>& lender);

// A program's flat output: a tensor, or a number that becomes a tensor of rank
// 0.
absl::StatusOr<at::Tensor> TensorOfValue(const c10::IValue& value);
absl::StatusOr<std::vector<at::Tensor>> TensorsOfValues(
    absl::Span<const c10::IValue> values);

}  // namespace stoker
