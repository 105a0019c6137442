// What waits to be sent to one peer: small pieces are copied together, large
// ones stay where they are until they have been sent.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "wire/byte_chain.h"
#include "wire/byte_stream.h"

namespace stoker {

class OutputBuffer {
 public:
  void Append(std::string_view bytes);
  // `size` bytes of it from `begin` on.
  void Append(const ByteSlice& slice, size_t begin, size_t size);

  bool empty() const { return size() == 0; }
  size_t size() const { return static_cast<size_t>(appended_ - sent_); }
  // Of all that was ever appended, and sent: a byte is gone when `sent` has
  // passed the `appended` that it made.
  uint64_t appended() const { return appended_; }
  uint64_t sent() const { return sent_; }

  // Sends as much as the stream takes. False: it is broken.
  bool SendTo(ByteStream& stream);

 private:
  struct Piece {
    std::string copied;
    ByteSlice shared;  // instead, when it has a size
    std::string_view bytes() const {
      return shared.size > 0 ? shared.text() : std::string_view(copied);
    }
  };

  void Drop(size_t bytes);

  std::deque<Piece> pieces_;
  size_t front_offset_ = 0;  // of the first piece, that was sent
  uint64_t appended_ = 0;
  uint64_t sent_ = 0;
};

}  // namespace stoker
