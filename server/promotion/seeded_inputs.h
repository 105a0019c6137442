// Made-up inputs that are the same on every host. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tensor/tensor.h"

namespace stoker {

// What seeded inputs are drawn from; one per input.
struct InputDomain {
  DataType dtype = DataType::kFp32;
  Shape shape;  // concrete
  double low = 0;
  double high = 1;      // closed range; integers and booleans use it rounded
  bool normal = false;  // floating point from N(0,1), range ignored
  enum class Pattern {
    kAny,
    kAscending,  // along the last axis
    kDiagonal,   // floating square matrices, of the last two axes, are
                 // symmetric, and their diagonal outweighs the rest
  };
  Pattern pattern = Pattern::kAny;
};

// Deterministic in (domains, seed): splitmix64, one stream per input; a normal
// distribution is the sum of twelve uniform numbers less six. Buffers are
// 64-byte aligned.
std::vector<Tensor> SeededInputs(absl::Span<const InputDomain> domains,
                                 uint64_t seed);

}  // namespace stoker
