// Made-up inputs that are the same on every host. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tensor/tensor.h"

namespace stoker {

// What seeded inputs are drawn from; one per input, and in this order for
// people. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct InputDomain {
  DataType dtype = DataType::kFp32;
  Shape shape;  // concrete
  double low = 0;
  double high = 1;      // closed range; integers and booleans use it rounded
  bool normal = false;  // floating point from N(0,1), range ignored
  // Nothing but the ends of the range; of normal numbers, zero and, of either
  // sign, next to nothing and from ExtremeOf(dtype) to a quarter more.
  bool extremes = false;
  // Each integer and boolean is the one after what it would be, and the first
  // of the range after its last: all are others, where the range has more than
  // one.
  bool shifted = false;
  enum class Pattern {
    kAny,
    kAscending,  // along the last axis
    kDiagonal,   // floating square matrices, of the last two axes, are
                 // symmetric, and their diagonal outweighs the rest
  };
  Pattern pattern = Pattern::kAny;
};

// Of a floating type, just above where its exp overflows: code that is right
// for moderate values only is wrong there, and sums of such values are fine.
double ExtremeOf(DataType dtype);

// Deterministic in (domains, seed): splitmix64, one stream per input; a normal
// distribution is the sum of twelve uniform numbers less six. Buffers are
// 64-byte aligned.
std::vector<Tensor> SeededInputs(absl::Span<const InputDomain> domains,
                                 uint64_t seed);

}  // namespace stoker
