// The size of one axis of a program's input or output: a constant, a dimension
// (a symbol of the exported program), an integer expression over dimensions, or
// unknown (data-dependent). Immutable values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace stoker {

class DimExpr {
 public:
  enum class Kind {
    kConstant,
    kDimension,
    kAdd,
    kMul,
    kFloorDiv,
    kMod,
    kUnknown
  };

  static DimExpr Constant(int64_t value);
  static DimExpr Dimension(int index);  // index into ModelSpec::dimensions
  // kAdd, kMul, kFloorDiv and kMod; the last two round down, as in Python.
  static DimExpr Binary(Kind kind, DimExpr left, DimExpr right);
  static DimExpr Unknown();

  Kind kind() const { return kind_; }
  bool is_constant() const { return kind_ == Kind::kConstant; }
  bool is_dimension() const { return kind_ == Kind::kDimension; }
  int64_t constant() const { return value_; }
  int dimension() const { return static_cast<int>(value_); }

  // The size when dimension i has size sizes[i]; nullopt for kUnknown anywhere
  // inside, overflow, or division by zero.
  std::optional<int64_t> Evaluate(absl::Span<const int64_t> sizes) const;
  // Whether dimension `index` occurs in it.
  bool DependsOn(int index) const;

  // scale * dimension + offset.
  struct Affine {
    int dimension = 0;
    int64_t scale = 1;  // above 0
    int64_t offset = 0;

    // The dimension's size where the expression's is `size`; nullopt where no
    // size of 0 or more makes it that.
    std::optional<int64_t> Solve(int64_t size) const;
  };
  // Unset for a constant, and for what isn't of this form.
  std::optional<Affine> AsAffine() const;

 private:
  DimExpr(Kind kind, int64_t value) : kind_(kind), value_(value) {}
  // As AsAffine; of a constant, scale is 0.
  std::optional<Affine> ConstantOrAffine() const;

  Kind kind_;
  int64_t value_ = 0;  // kConstant: the value; kDimension: the index
  std::shared_ptr<const std::vector<DimExpr>> operands_;
};

}  // namespace stoker
