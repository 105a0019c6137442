#include "batching/padding.h"

#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"

namespace stoker {
namespace {

void CopyBytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

// One CopyResized: strides and the axis below which blocks are contiguous.
class Resize {
 public:
  Resize(absl::Span<const int64_t> from_shape,
         absl::Span<const int64_t> to_shape, size_t element_size,
         const ElementBytes& pad)
      : from_shape_(from_shape),
        to_shape_(to_shape),
        element_size_(element_size),
        pad_(pad),
        rank_(to_shape.size()),
        from_stride_(rank_),
        to_stride_(rank_),
        block_axis_(rank_) {
    int64_t from_bytes = static_cast<int64_t>(element_size);
    int64_t to_bytes = from_bytes;
    bool equal_below = true;
    for (size_t axis = rank_; axis-- > 0;) {
      from_stride_[axis] = from_bytes;
      to_stride_[axis] = to_bytes;
      if (equal_below) block_axis_ = axis;
      equal_below &= from_shape[axis] == to_shape[axis];
      from_bytes *= from_shape[axis];
      to_bytes *= to_shape[axis];
    }
  }

  void Copy(size_t axis, const std::byte* from, std::byte* to) const {
    if (axis == rank_) return CopyBytes(to, from, element_size_);
    const int64_t shared = std::min(from_shape_[axis], to_shape_[axis]);
    if (axis >= block_axis_) {
      CopyBytes(to, from, static_cast<size_t>(shared * to_stride_[axis]));
    } else {
      for (int64_t i = 0; i < shared; ++i) {
        Copy(axis + 1, from + i * from_stride_[axis],
             to + i * to_stride_[axis]);
      }
    }
    const int64_t added_bytes = (to_shape_[axis] - shared) * to_stride_[axis];
    FillElements(to + shared * to_stride_[axis],
                 added_bytes / static_cast<int64_t>(element_size_),
                 element_size_, pad_);
  }

 private:
  using Strides = absl::InlinedVector<int64_t, 6>;

  const absl::Span<const int64_t> from_shape_;
  const absl::Span<const int64_t> to_shape_;
  const size_t element_size_;
  const ElementBytes& pad_;
  const size_t rank_;
  Strides from_stride_;  // bytes
  Strides to_stride_;
  size_t block_axis_;  // below it, both shapes are equal
};

}  // namespace

void CopyResized(const std::byte* from, absl::Span<const int64_t> from_shape,
                 std::byte* to, absl::Span<const int64_t> to_shape,
                 size_t element_size, const ElementBytes& pad) {
  Resize(from_shape, to_shape, element_size, pad).Copy(0, from, to);
}

}  // namespace stoker
