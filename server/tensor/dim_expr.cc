#include "tensor/dim_expr.h"

#include <utility>

namespace stoker {
namespace {

std::optional<int64_t> Add(int64_t left, int64_t right) {
  int64_t sum = 0;
  if (__builtin_add_overflow(left, right, &sum)) return std::nullopt;
  return sum;
}

std::optional<int64_t> Mul(int64_t left, int64_t right) {
  int64_t product = 0;
  if (__builtin_mul_overflow(left, right, &product)) return std::nullopt;
  return product;
}

// Division and remainder follow Python: the quotient is rounded down and the
// remainder has the divisor's sign. INT64_MIN / -1 traps on x86, hence the
// separate case for -1.
std::optional<int64_t> FloorDiv(int64_t left, int64_t right) {
  if (right == 0) return std::nullopt;
  if (right == -1) return Mul(left, -1);
  const bool inexact_negative = left % right != 0 && (left < 0) != (right < 0);
  return left / right - (inexact_negative ? 1 : 0);
}

std::optional<int64_t> Mod(int64_t left, int64_t right) {
  if (right == 0) return std::nullopt;
  if (right == -1) return 0;
  const int64_t remainder = left % right;
  const bool wrong_sign = remainder != 0 && (remainder < 0) != (right < 0);
  return remainder + (wrong_sign ? right : 0);
}

}  // namespace

DimExpr DimExpr::Constant(int64_t value) {
  return DimExpr(Kind::kConstant, value);
}

DimExpr DimExpr::Dimension(int index) {
  return DimExpr(Kind::kDimension, index);
}

DimExpr DimExpr::Binary(Kind kind, DimExpr left, DimExpr right) {
  DimExpr expr(kind, 0);
  expr.operands_ = std::make_shared<const std::vector<DimExpr>>(
      std::vector<DimExpr>{std::move(left), std::move(right)});
  return expr;
}

DimExpr DimExpr::Unknown() { return DimExpr(Kind::kUnknown, 0); }

std::optional<int64_t> DimExpr::Evaluate(
    absl::Span<const int64_t> sizes) const {
  if (kind_ == Kind::kConstant) return value_;
  if (kind_ == Kind::kDimension) {
    const bool known =
        value_ >= 0 && value_ < static_cast<int64_t>(sizes.size());
    return known ? std::optional(sizes[value_]) : std::nullopt;
  }
  if (operands_ == nullptr) return std::nullopt;  // kUnknown
  const std::optional<int64_t> left = (*operands_)[0].Evaluate(sizes);
  const std::optional<int64_t> right = (*operands_)[1].Evaluate(sizes);
  if (!left || !right) return std::nullopt;
  switch (kind_) {
    case Kind::kAdd:
      return Add(*left, *right);
    case Kind::kMul:
      return Mul(*left, *right);
    case Kind::kFloorDiv:
      return FloorDiv(*left, *right);
    case Kind::kMod:
      return Mod(*left, *right);
    default:
      return std::nullopt;
  }
}

std::optional<DimExpr::Affine> DimExpr::ConstantOrAffine() const {
  if (kind_ == Kind::kConstant) return Affine{.scale = 0, .offset = value_};
  if (kind_ == Kind::kDimension) return Affine{.dimension = dimension()};
  if (kind_ != Kind::kAdd && kind_ != Kind::kMul) return std::nullopt;
  std::optional<Affine> left = (*operands_)[0].ConstantOrAffine();
  std::optional<Affine> right = (*operands_)[1].ConstantOrAffine();
  if (!left || !right) return std::nullopt;
  if (left->scale == 0) std::swap(left, right);
  if (right->scale != 0 &&
      (kind_ == Kind::kMul || left->dimension != right->dimension)) {
    return std::nullopt;
  }
  const bool adds = kind_ == Kind::kAdd;
  const auto scale =
      adds ? Add(left->scale, right->scale) : Mul(left->scale, right->offset);
  const auto offset = adds ? Add(left->offset, right->offset)
                           : Mul(left->offset, right->offset);
  if (!scale || !offset) return std::nullopt;
  return Affine{left->dimension, *scale, *offset};
}

std::optional<DimExpr::Affine> DimExpr::AsAffine() const {
  const std::optional<Affine> affine = ConstantOrAffine();
  return affine && affine->scale > 0 ? affine : std::nullopt;
}

std::optional<int64_t> DimExpr::Affine::Solve(int64_t size) const {
  int64_t scaled = 0;
  if (__builtin_sub_overflow(size, offset, &scaled) || scaled < 0 ||
      scaled % scale != 0) {
    return std::nullopt;
  }
  return scaled / scale;
}

bool DimExpr::DependsOn(int index) const {
  if (kind_ == Kind::kDimension) return value_ == index;
  if (operands_ == nullptr) return false;
  for (const DimExpr& operand : *operands_) {
    if (operand.DependsOn(index)) return true;
  }
  return false;
}

}  // namespace stoker
