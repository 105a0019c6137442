#include "rpc/message_bytes.h"

#include <algorithm>
#include <cstring>

namespace stoker {

const std::byte* MessageBytes::Contiguous(size_t offset, size_t size) const {
  for (const ByteSlice& slice : slices_) {
    if (offset < slice.size || size == 0) {
      if (size > slice.size - std::min(offset, slice.size)) return nullptr;
      return slice.data + std::min(offset, slice.size);
    }
    offset -= slice.size;
  }
  return nullptr;
}

void MessageBytes::ForEachPiece(
    size_t offset, size_t size,
    absl::FunctionRef<void(const std::byte*, size_t)> visit) const {
  for (const ByteSlice& slice : slices_) {
    if (size == 0) return;
    if (offset >= slice.size) {
      offset -= slice.size;
      continue;
    }
    const size_t here = std::min(size, slice.size - offset);
    visit(slice.data + offset, here);
    size -= here;
    offset = 0;
  }
}

void MessageBytes::CopyTo(size_t offset, size_t size, std::byte* out) const {
  ForEachPiece(offset, size, [&out](const std::byte* piece, size_t bytes) {
    std::memcpy(out, piece, bytes);
    out += bytes;
  });
}

MessageStream::MessageStream(const MessageBytes& bytes, size_t offset,
                             size_t size)
    : bytes_(bytes), begin_(offset), end_(offset + size) {
  Seek(offset);
}

void MessageStream::Seek(size_t position) {
  position_ = position;
  while (position_ < slice_position_) {
    slice_position_ -= bytes_.slices_[--slice_].size;
  }
  while (slice_ < bytes_.slices_.size() &&
         position_ >= slice_position_ + bytes_.slices_[slice_].size) {
    slice_position_ += bytes_.slices_[slice_++].size;
  }
}

bool MessageStream::Next(const void** data, int* size) {
  if (position_ >= end_ || slice_ >= bytes_.slices_.size()) return false;
  const ByteSlice& slice = bytes_.slices_[slice_];
  const size_t offset = position_ - slice_position_;
  const size_t here = std::min(slice.size - offset, end_ - position_);
  *data = slice.data + offset;
  *size = static_cast<int>(here);
  Seek(position_ + here);
  return true;
}

void MessageStream::BackUp(int count) {
  Seek(position_ - static_cast<size_t>(count));
}

bool MessageStream::Skip(int count) {
  const size_t wanted = static_cast<size_t>(count);
  const size_t skipped = std::min(wanted, end_ - position_);
  Seek(position_ + skipped);
  return skipped == wanted;
}

}  // namespace stoker
