// The bytes of one message, in the pieces in which they lie in memory: what
// arrived is in one piece, an answer in the pieces that its tensors are.
// Nothing is copied when a chain is.
//
// Values. Any thread may read one that no thread changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace stoker {

// Bytes that live as long as `owner`.
struct ByteSlice {
  std::shared_ptr<const void> owner;  // null: they outlive every slice
  const std::byte* data = nullptr;
  size_t size = 0;

  std::string_view text() const {
    return {reinterpret_cast<const char*>(data), size};
  }
};

// Memory that is written once and then shared. It ends at a multiple of 64
// bytes: so does a message in it, and what is last in one, mostly the elements
// of a tensor, begins at such a multiple where its size is one. Compiled code
// takes it where it lies then.
class ByteBlock {
 public:
  explicit ByteBlock(size_t size) : size_(size) {
    if (size == 0) return;
    memory_ =
        std::make_shared_for_overwrite<std::byte[]>(size + kAlignment - 1);
    const auto end = reinterpret_cast<uintptr_t>(memory_.get()) + size;
    begin_ = memory_.get() + (kAlignment - end % kAlignment) % kAlignment;
  }

  std::byte* data() { return begin_; }
  size_t size() const { return size_; }
  ByteSlice Share(size_t begin, size_t end) const {
    return {memory_, begin_ + begin, end - begin};
  }
  ByteSlice Share() const { return Share(0, size_); }

 private:
  static constexpr size_t kAlignment = 64;

  std::shared_ptr<std::byte[]> memory_;
  std::byte* begin_ = nullptr;
  size_t size_;
};

class ByteChain {
 public:
  using Slices = absl::InlinedVector<ByteSlice, 1>;

  ByteChain() = default;
  // A copy of the text.
  static ByteChain Copy(std::string_view text);

  void Append(ByteSlice slice) {
    if (slice.size == 0) return;
    size_ += slice.size;
    slices_.push_back(std::move(slice));
  }
  void Clear() {
    slices_.clear();
    size_ = 0;
  }

  size_t size() const { return size_; }
  const Slices& slices() const { return slices_; }
  // All bytes in one piece, for what is small or rare.
  std::string Joined() const;

 private:
  Slices slices_;
  size_t size_ = 0;
};

}  // namespace stoker
