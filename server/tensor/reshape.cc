#include "tensor/reshape.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"

namespace stoker {
namespace {

bool IsSize(int64_t size) { return size >= 1 || size == -1; }

// The elements before, between and behind the sizes that requests choose;
// nullopt when they are more than int64 holds.
using Parts = absl::InlinedVector<int64_t, 4>;

std::optional<Parts> PartsOf(const Shape& sides) {
  Parts parts = {1};
  for (const int64_t size : sides) {
    if (size == -1) {
      parts.push_back(1);
    } else if (__builtin_mul_overflow(parts.back(), size, &parts.back())) {
      return std::nullopt;
    }
  }
  return parts;
}

std::optional<Shape> Translate(const Shape& from, const Shape& to,
                               absl::Span<const int64_t> sizes) {
  if (sizes.size() != from.size()) return std::nullopt;
  Shape translated = to;
  auto next = translated.begin();
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] != -1) {
      if (sizes[axis] != from[axis]) return std::nullopt;
      continue;
    }
    next = std::find(next, translated.end(), -1);
    if (next == translated.end()) return std::nullopt;
    *next++ = sizes[axis];
  }
  return translated;
}

}  // namespace

std::string Reshape::Mistake(std::string_view other) const {
  if (!std::all_of(dims.begin(), dims.end(), IsSize)) {
    return "dims of 1 or more, or -1";
  }
  if (!std::all_of(shape.begin(), shape.end(), IsSize)) {
    return "sizes of 1 or more, or -1";
  }
  const std::optional<Parts> outside = PartsOf(dims);
  const std::optional<Parts> inside = PartsOf(shape);
  if (outside.has_value() && inside == outside) return "";
  if (!outside.has_value() || !inside.has_value()) {
    return "no more elements than memory can hold";
  }
  if (outside->size() != inside->size()) {
    return absl::StrCat("as many -1 as ", Absl(other));
  }
  return absl::StrCat(
      "as many elements as ", Absl(other),
      outside->size() > 1 ? " before, between and behind its -1" : "");
}

std::optional<Shape> Reshape::ToProgram(
    absl::Span<const int64_t> clients) const {
  return Translate(dims, shape, clients);
}

std::optional<Shape> Reshape::ToClients(
    absl::Span<const int64_t> programs) const {
  return Translate(shape, dims, programs);
}

}  // namespace stoker
