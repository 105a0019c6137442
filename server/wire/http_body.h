// Puts a request's body together from the pieces in which it arrives, and
// undoes its compression. Memory is reserved before it is taken: at once for a
// body whose length is known, a block at a time for chunks.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "wire/byte_chain.h"
#include "wire/call.h"
#include "wire/inflater.h"

namespace stoker {

class HttpBody {
 public:
  using Reserve = Inflater::Reserve;

  // `max_bytes`: as it comes, and without its compression. `length`: nullopt
  // for chunks.
  HttpBody(size_t max_bytes, Encoding encoding, std::optional<size_t> length)
      : max_bytes_(max_bytes), encoding_(encoding), length_(length) {}

  // Not OK: it has no body. RESOURCE_EXHAUSTED: it is too long, or `reserve`
  // says so; INVALID_ARGUMENT: it is not compressed as it should be.
  CallStatus Begin(Reserve reserve);
  CallStatus Add(std::string_view bytes, Reserve reserve);
  // All of it has come; where it is compressed, Step until it isn't inflating.
  CallStatus End(Reserve reserve);
  size_t missing() const {
    return length_.has_value() ? *length_ - arrived_ : 0;
  }
  bool inflating() const { return inflater_.has_value(); }
  CallStatus Step(Reserve reserve);
  // Call once.
  ByteChain Take() { return std::move(body_); }

 private:
  CallStatus Grow(size_t wanted, Reserve reserve);
  CallStatus TooLong() const;
  void KeepBlock();

  const size_t max_bytes_;
  const Encoding encoding_;
  const std::optional<size_t> length_;
  size_t arrived_ = 0;
  std::optional<ByteBlock> block_;  // that is being filled
  size_t filled_ = 0;
  ByteChain body_;
  std::optional<Inflater> inflater_;
};

}  // namespace stoker
