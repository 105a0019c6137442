// A tensor's shape as clients have it, where the program has another: Triton's
// `dims` and `reshape`. The elements are the same, in the same order.
//
// A value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "tensor/tensor.h"

namespace stoker {

struct Reshape {
  // -1: a size that requests choose. The first one of `dims` is the size of the
  // first one of `shape`, and so on.
  Shape dims;   // clients'
  Shape shape;  // the program's

  // By Triton's rules: sizes of 1 or more, as many -1 on both sides, and before
  // the first, between two, and behind the last as many elements. What one side
  // was expected to be where the other is called `other`; empty: the rules
  // hold.
  std::string Mistake(std::string_view other) const;

  // The other side's shape for one that is as `dims`, or as `shape`; nullopt
  // for one that isn't.
  std::optional<Shape> ToProgram(absl::Span<const int64_t> clients) const;
  std::optional<Shape> ToClients(absl::Span<const int64_t> programs) const;
};

}  // namespace stoker
