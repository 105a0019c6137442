#include "tensor/batch_input.h"

#include <cstring>

#include "tensor/element.h"

namespace stoker {

using Kind = BatchInput::Kind;

std::string_view BatchInputKindName(Kind kind) {
  switch (kind) {
    case Kind::kElementCount:
      return "BATCH_ELEMENT_COUNT";
    case Kind::kAccumulatedElementCount:
      return "BATCH_ACCUMULATED_ELEMENT_COUNT";
    case Kind::kAccumulatedElementCountWithZero:
      return "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO";
    case Kind::kMaxElementCountAsShape:
      return "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE";
  }
  return "";
}

std::optional<Kind> BatchInputKind(std::string_view name) {
  for (const Kind kind : kBatchInputKinds) {
    if (BatchInputKindName(kind) == name) return kind;
  }
  return std::nullopt;
}

int64_t BatchInputSize(Kind kind, int64_t requests, int64_t longest) {
  if (kind == Kind::kMaxElementCountAsShape) return longest;
  return requests + (kind == Kind::kAccumulatedElementCountWithZero ? 1 : 0);
}

void SetBatchInputSize(const BatchInput& input, const DimExpr& dim,
                       int64_t requests, int64_t longest,
                       absl::Span<int64_t> sizes) {
  const std::optional<DimExpr::Affine> affine = dim.AsAffine();
  if (!affine.has_value()) return;
  const std::optional<int64_t> size =
      affine->Solve(BatchInputSize(input.kind, requests, longest));
  if (size.has_value()) sizes[static_cast<size_t>(affine->dimension)] = *size;
}

void FillBatchInput(Kind kind, absl::Span<const int64_t> elements,
                    DataType dtype, int64_t size, std::byte* out) {
  const size_t each = DataTypeSize(dtype);
  const auto write = [&](int64_t at, int64_t value) {
    const ElementBytes bytes = EncodeElement(static_cast<double>(value), dtype);
    std::memcpy(out + static_cast<size_t>(at) * each, bytes.data(), each);
  };
  const bool with_zero = kind == Kind::kAccumulatedElementCountWithZero;
  const bool accumulated = with_zero || kind == Kind::kAccumulatedElementCount;
  const auto requests = static_cast<int64_t>(elements.size());
  int64_t so_far = 0;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t request = with_zero ? i - 1 : i;
    const bool real = request >= 0 && request < requests &&
                      kind != Kind::kMaxElementCountAsShape;
    const int64_t count = real ? elements[static_cast<size_t>(request)] : 0;
    so_far += count;
    write(i, accumulated ? so_far : count);
  }
}

}  // namespace stoker
