// Sees every frame that a peer sends, also those that nghttp2 passes over in
// silence, by nothing but its head.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace stoker {

class FrameMeter {
 public:
  struct Head {
    size_t length = 0;
    uint8_t type = 0;
    uint8_t flags = 0;
    uint32_t stream = 0;
  };

  // The DATA that has begun and is not over, without padding: how much of it is
  // missing; 0: there is none.
  size_t data_left() const {
    constexpr uint8_t kData = 0, kPadded = 8;
    const bool data = last_.type == kData && (last_.flags & kPadded) == 0;
    return data && last_.stream != 0 ? skip_ : 0;
  }
  uint32_t data_stream() const { return last_.stream; }
  // Bytes that came of a list of headers, or of a goodbye, which is not whole:
  // nghttp2 may keep as many.
  size_t unfinished() const { return unfinished_; }

  // What arrived; `see` is called for each frame that begins in it.
  void Add(std::string_view bytes, absl::FunctionRef<void(const Head&)> see);

 private:
  static constexpr size_t kHead = 9;
  static constexpr size_t kPreface = 24;

  void CountUnfinished(size_t bytes);

  std::array<unsigned char, kHead> head_ = {};
  size_t head_size_ = 0;
  size_t skip_ = kPreface;  // bytes before the next head
  Head last_;
  size_t unfinished_ = 0;
};

}  // namespace stoker
