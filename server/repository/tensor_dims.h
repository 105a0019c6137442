// Shapes that configurations name, against the program's. Private to this room.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "repository/model_spec.h"
#include "tensor/dim_expr.h"

namespace stoker {

// Without the batch where there is one, and without the last axis where its
// rows are elements of BYTES.
absl::Span<const DimExpr> OwnDims(const std::vector<DimExpr>& dims,
                                  bool batched, bool is_bytes);

// Whether rows of the last axis can be elements of BYTES.
bool HasRows(DataType dtype, const std::vector<DimExpr>& dims, bool batched);

// Whether the axis can have `size`; -1: a request chooses.
bool CanBe(const DimExpr& dim, int64_t size,
           const std::vector<DimensionSpec>& dimensions);

// "[-1, 384]"
std::string DimsText(absl::Span<const DimExpr> dims);
std::string DimsText(absl::Span<const int64_t> dims);

}  // namespace stoker
