#include "repository/tensor_dims.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stoker {

absl::Span<const DimExpr> OwnDims(const std::vector<DimExpr>& dims,
                                  bool batched, bool is_bytes) {
  absl::Span<const DimExpr> own = dims;
  if (batched && !own.empty()) own.remove_prefix(1);
  if (is_bytes && !own.empty()) own.remove_suffix(1);
  return own;
}

bool HasRows(DataType dtype, const std::vector<DimExpr>& dims, bool batched) {
  return dtype == DataType::kUint8 && dims.size() > (batched ? 1u : 0u);
}

bool CanBe(const DimExpr& dim, int64_t size,
           const std::vector<DimensionSpec>& dimensions) {
  if (size == -1) return true;
  if (dim.is_constant()) return dim.constant() == size;
  const auto affine = dim.AsAffine();
  if (!affine) return size > 0;  // what follows from several
  const std::optional<int64_t> value = affine->Solve(size);
  const DimensionSpec& dimension = dimensions[affine->dimension];
  return value.has_value() && *value >= dimension.min &&
         *value <= dimension.max;
}

std::string DimsText(absl::Span<const DimExpr> dims) {
  Shape sizes;
  for (const DimExpr& dim : dims) {
    sizes.push_back(dim.is_constant() ? dim.constant() : -1);
  }
  return DimsText(sizes);
}

std::string DimsText(absl::Span<const int64_t> dims) {
  return absl::StrCat("[", absl::StrJoin(dims, ", "), "]");
}

}  // namespace stoker
