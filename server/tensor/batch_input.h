// Inputs that no request has: what a program whose requests are put together
// end to end (a ragged batch) is told of where each begins and ends. Kinds and
// names are Triton's. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/types/span.h"
#include "tensor/dim_expr.h"
#include "tensor/tensor.h"

namespace stoker {

struct BatchInput {
  enum class Kind {
    kElementCount,                     // of each request
    kAccumulatedElementCount,          // of all up to each
    kAccumulatedElementCountWithZero,  // 0, and then the same
    kMaxElementCountAsShape,           // as many zeros as the longest has
  };
  Kind kind = Kind::kElementCount;
  int source = 0;  // the input whose elements are counted
};

// As Triton spells it: "BATCH_ELEMENT_COUNT"; nullopt for another text.
std::optional<BatchInput::Kind> BatchInputKind(std::string_view name);
std::string_view BatchInputKindName(BatchInput::Kind kind);
inline constexpr BatchInput::Kind kBatchInputKinds[] = {
    BatchInput::Kind::kElementCount, BatchInput::Kind::kAccumulatedElementCount,
    BatchInput::Kind::kAccumulatedElementCountWithZero,
    BatchInput::Kind::kMaxElementCountAsShape};

// The size of such an input's one axis for so many requests, of which the
// longest has so many elements.
int64_t BatchInputSize(BatchInput::Kind kind, int64_t requests,
                       int64_t longest);

// Sets the size of the dimension that the input's axis `dim` is made of, where
// it is made of one.
void SetBatchInputSize(const BatchInput& input, const DimExpr& dim,
                       int64_t requests, int64_t longest,
                       absl::Span<int64_t> sizes);

// Writes `size` elements to `out`, for requests of these numbers of elements.
// What is beyond them belongs to requests without elements: their count is 0,
// and what was counted so far stays.
void FillBatchInput(BatchInput::Kind kind, absl::Span<const int64_t> elements,
                    DataType dtype, int64_t size, std::byte* out);

}  // namespace stoker
