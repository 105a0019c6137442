#include "runner/number_operators.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <cmath>
#include <functional>

namespace stoker {
namespace {

// An integer beyond 2^53 counts as the nearest that a double holds.
template <typename Compare>
bool Compared(const at::Scalar& a, const at::Scalar& b) {
  return Compare()(a.toDouble(), b.toDouble());
}

at::Scalar Remainder(const at::Scalar& a, const at::Scalar& b) {
  const double divisor = b.toDouble();
  TORCH_CHECK(divisor != 0, "expected a remainder by another number than 0");
  const double remainder = std::fmod(a.toDouble(), divisor);
  if (remainder == 0) return std::copysign(0.0, divisor);
  return (remainder < 0) != (divisor < 0) ? remainder + divisor : remainder;
}

}  // namespace

void RegisterNumberOperators() {
  // Never freed: programs that are still loaded hold what it registered.
  static torch::Library* const operators = [] {
    auto* const library = new torch::Library(torch::Library::FRAGMENT, "stoker",
                                             std::nullopt, __FILE__, __LINE__);
    library->def("eq(Scalar a, Scalar b) -> bool",
                 Compared<std::equal_to<double>>);
    library->def("ne(Scalar a, Scalar b) -> bool",
                 Compared<std::not_equal_to<double>>);
    library->def("lt(Scalar a, Scalar b) -> bool", Compared<std::less<double>>);
    library->def("le(Scalar a, Scalar b) -> bool",
                 Compared<std::less_equal<double>>);
    library->def("gt(Scalar a, Scalar b) -> bool",
                 Compared<std::greater<double>>);
    library->def("ge(Scalar a, Scalar b) -> bool",
                 Compared<std::greater_equal<double>>);
    library->def("mod(Scalar a, Scalar b) -> Scalar", Remainder);
    return library;
  }();
  static_cast<void>(operators);
}

}  // namespace stoker
