// Undoes the compression of one message, a step at a time: nobody can tell how
// large it gets, or how long that takes.
//
// Not thread-safe.
#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "wire/byte_chain.h"
#include "wire/call.h"
#include "wire/encoding.h"

namespace stoker {

class Inflater {
 public:
  // Asked before each step takes memory.
  using Reserve = absl::FunctionRef<CallStatus(size_t bytes)>;

  // At most 256 KB a step: a fraction of a millisecond.
  static constexpr size_t kStepBytes = 256 << 10;

  // `max_bytes`: of what comes out.
  Inflater(Encoding encoding, ByteSlice compressed, size_t max_bytes);
  ~Inflater();

  // INTERNAL: it is no such stream, or there is something behind it;
  // RESOURCE_EXHAUSTED: it is too long; what `reserve` refuses with.
  CallStatus Step(Reserve reserve);
  bool done() const { return done_; }
  ByteChain Take() { return std::move(out_); }

 private:
  struct State;

  const ByteSlice compressed_;
  const size_t max_bytes_;
  std::unique_ptr<State> state_;
  ByteChain out_;
  bool done_ = false;
};

}  // namespace stoker
