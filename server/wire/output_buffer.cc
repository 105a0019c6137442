#include "wire/output_buffer.h"

#include <algorithm>
#include <array>
#include <utility>

namespace stoker {
namespace {

// Below this a copy costs less than a piece of its own.
constexpr size_t kMinShared = 2048;
// Copies are put together up to this size.
constexpr size_t kMaxCopied = 16 << 10;

constexpr int kPiecesPerSend = 64;

}  // namespace

void OutputBuffer::Append(std::string_view bytes) {
  if (bytes.empty()) return;
  appended_ += bytes.size();
  if (pieces_.empty() || pieces_.back().shared.size > 0 ||
      pieces_.back().copied.size() + bytes.size() > kMaxCopied) {
    pieces_.emplace_back();
  }
  pieces_.back().copied.append(bytes);
}

void OutputBuffer::Append(const ByteSlice& slice, size_t begin, size_t size) {
  if (size < kMinShared) {
    Append(slice.text().substr(begin, size));
    return;
  }
  appended_ += size;
  pieces_.emplace_back().shared = {slice.owner, slice.data + begin, size};
}

void OutputBuffer::Drop(size_t bytes) {
  sent_ += bytes;
  while (bytes > 0) {
    const size_t left = pieces_.front().bytes().size() - front_offset_;
    if (bytes < left) {
      front_offset_ += bytes;
      return;
    }
    bytes -= left;
    front_offset_ = 0;
    if (pieces_.size() == 1 && pieces_.front().shared.size == 0) {
      pieces_.front().copied.clear();  // its memory serves again
      return;
    }
    pieces_.pop_front();
  }
}

bool OutputBuffer::SendTo(ByteStream& stream) {
  while (!empty()) {
    std::array<iovec, kPiecesPerSend> vectors;
    int count = 0;
    size_t all = 0;
    size_t offset = front_offset_;
    for (const Piece& piece : pieces_) {
      if (count == kPiecesPerSend) break;
      const std::string_view bytes = piece.bytes().substr(offset);
      offset = 0;
      vectors[count++] = {const_cast<char*>(bytes.data()), bytes.size()};
      all += bytes.size();
    }
    const long sent = stream.Send(vectors.data(), count);
    if (sent == ByteStream::kBroken) return false;
    if (sent < 0) return true;
    Drop(static_cast<size_t>(sent));
    if (static_cast<size_t>(sent) < all) return true;
  }
  return true;
}

}  // namespace stoker
