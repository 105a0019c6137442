// The bytes of one message in the slices in which gRPC received them, never
// joined: a message that came in one read lies in one slice, a large one in
// many.
//
// Not thread-safe while it is made; any thread may read it afterwards.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"

namespace stoker {

// Neither copied nor moved: a slice of a few bytes holds them in itself.
class MessageBytes {
 public:
  // Shares the buffer's slices.
  explicit MessageBytes(const grpc::ByteBuffer& buffer);
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

  absl::InlinedVector<grpc::Slice, 1> slices_;
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
