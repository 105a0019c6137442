// The tensors that go from one step to another: as clients would have them, but
// that BYTES are rows of UINT8, as programs have them.
//
// Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "repository/model_spec.h"
#include "tensor/shape_bucket.h"
#include "tensor/tensor.h"

namespace stoker {

struct PassedTensor {
  Tensor tensor;
  bool is_bytes = false;  // its last axis is no axis to clients
};

struct StepInputs {
  std::vector<Tensor> tensors;  // in the model's order, as its program has them
  DimensionSizes sizes;
  int64_t rows = 1;
};

// Holds what was made against what the model declares, as requests are.
// `given`: by input of the model; none is null. Shares their memory, but for
// BYTES whose rows have to be longer. INVALID_ARGUMENT in the words that a
// client of the model would get.
absl::StatusOr<StepInputs> BindInputs(
    const ModelSpec& spec, absl::Span<const PassedTensor* const> given);

// An output of the model, for others. Shares its memory. INVALID_ARGUMENT: it
// can't have the shape that clients know.
absl::StatusOr<PassedTensor> PassOutput(const ModelSpec& spec, size_t index,
                                        Tensor output);

// Of the model's outputs for such sizes; what depends on values counts as
// nothing.
size_t OutputBytes(const ModelSpec& spec, const DimensionSizes& sizes);

}  // namespace stoker
