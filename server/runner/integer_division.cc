// The replaced kernel is a static member that torch's header declares only to
// torch's own build.
#ifdef __x86_64__
#define HAVE_AVX2_CPU_DEFINITION
#endif
#include "runner/integer_division.h"

#include <ATen/TensorIterator.h>
#include <ATen/native/BinaryOps.h>

#include <cstdint>
#include <type_traits>

namespace stoker {

#ifdef __x86_64__

namespace {

using at::native::structured_binary_fn;
using Stub = at::native::div_trunc_stub_DECLARE_DISPATCH_type;

// Torch's, by instruction set. Set before the first use, never changed.
structured_binary_fn torch_default = nullptr;
structured_binary_fn torch_avx2 = nullptr;

template <typename Int>
Int Quotient(Int dividend, Int divisor) {
  TORCH_CHECK(divisor != 0, "ZeroDivisionError");
  if (divisor != -1) return dividend / divisor;
  return static_cast<Int>(0 - static_cast<std::make_unsigned_t<Int>>(dividend));
}

// Rows of a plane: for each of the three tensors a base, its step within a row
// and its step from row to row.
template <typename Int>
void DividePlane(char** bases, const int64_t* steps, int64_t columns,
                 int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    char* out = bases[0] + row * steps[3];
    const char* dividend = bases[1] + row * steps[4];
    const char* divisor = bases[2] + row * steps[5];
    for (int64_t i = 0; i < columns; ++i) {
      *reinterpret_cast<Int*>(out + i * steps[0]) =
          Quotient(*reinterpret_cast<const Int*>(dividend + i * steps[1]),
                   *reinterpret_cast<const Int*>(divisor + i * steps[2]));
    }
  }
}

// Narrower integers are widened before they are divided, and can't trap.
template <structured_binary_fn& torch_kernel>
void Divide(at::TensorIteratorBase& iterator) {
  switch (iterator.common_dtype()) {
    case at::kInt:
      return iterator.for_each(DividePlane<int32_t>);
    case at::kLong:
      return iterator.for_each(DividePlane<int64_t>);
    default:
      return torch_kernel(iterator);
  }
}

}  // namespace

void MakeTruncatedDivisionSafe() {
  if (torch_default != nullptr) return;
  torch_default = Stub::DEFAULT;
  torch_avx2 = Stub::AVX2;
  Stub::DEFAULT = Divide<torch_default>;
  Stub::AVX2 = Divide<torch_avx2>;
}

#else

// Other processors don't trap.
void MakeTruncatedDivisionSafe() {}

#endif

}  // namespace stoker
