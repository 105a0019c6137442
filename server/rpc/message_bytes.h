// The bytes of one message in the slices in which they arrived, never joined.
//
// Not thread-safe while it is made; any thread may read it afterwards.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "wire/byte_chain.h"

namespace stoker {

class MessageBytes {
 public:
  // Shares the chain's slices.
  explicit MessageBytes(const ByteChain& chain)
      : slices_(chain.slices()), size_(chain.size()) {}
  MessageBytes(const MessageBytes&) = delete;
  MessageBytes& operator=(const MessageBytes&) = delete;

  size_t size() const { return size_; }

  // Where `size` bytes at `offset` lie when one slice holds all of them; else
  // null. They must be within the message.
  const std::byte* Contiguous(size_t offset, size_t size) const;

  // The same bytes piece by piece, in order.
  void ForEachPiece(
      size_t offset, size_t size,
      absl::FunctionRef<void(const std::byte*, size_t)> visit) const;

  void CopyTo(size_t offset, size_t size, std::byte* out) const;

  // Lets go of the slices. What was found in them is no longer there.
  void Release() { slices_.clear(); }

 private:
  friend class MessageStream;

  ByteChain::Slices slices_;
  size_t size_ = 0;
};

// A part of a message for protobuf's readers. Any number of bytes that were
// read can be given back, across slices too: after a stray end-group tag the
// generated parser gives back all that it looked ahead.
class MessageStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  // `size` bytes at `offset` of `bytes`, which outlive this object.
  MessageStream(const MessageBytes& bytes, size_t offset, size_t size);

  bool Next(const void** data, int* size) override;
  void BackUp(int count) override;
  bool Skip(int count) override;
  int64_t ByteCount() const override {
    return static_cast<int64_t>(position_ - begin_);
  }

 private:
  void Seek(size_t position);

  const MessageBytes& bytes_;
  const size_t begin_;
  const size_t end_;
  size_t position_ = 0;        // in the message
  size_t slice_ = 0;           // that holds it
  size_t slice_position_ = 0;  // in the message, of that slice's first byte
};

}  // namespace stoker
