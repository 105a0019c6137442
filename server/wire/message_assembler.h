// Puts a call's messages together from the pieces in which its bytes arrive: a
// flag, four bytes of length, that many bytes, and again.
//
// A message is put together while somebody waits for it, in memory that is
// reserved when its length is known; what comes before or behind that waits as
// it is, and is no more than the peer's window lets through.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "wire/byte_chain.h"
#include "wire/call.h"
#include "wire/inflater.h"

namespace stoker {

class MessageAssembler {
 public:
  using Reserve = Inflater::Reserve;

  explicit MessageAssembler(size_t max_bytes) : max_bytes_(max_bytes) {}
  void SetEncoding(Encoding encoding) { encoding_ = encoding; }

  // Not OK: the call ends with it. RESOURCE_EXHAUSTED: a message is too long,
  // or `reserve` says so; INTERNAL: no such flag, no such compression.
  CallStatus Add(std::string_view bytes, Reserve reserve);
  // The same for bytes that nobody waits for yet, and for those once somebody
  // does.
  void Keep(std::string_view bytes) { waiting_.append(bytes); }
  CallStatus Resume(Reserve reserve);
  // A compressed message is whole: Step until it is not inflating any more.
  bool inflating() const { return inflater_.has_value(); }
  CallStatus Step(Reserve reserve);

  bool has_message() const { return message_.has_value(); }
  // Call if there is one.
  ByteChain Take();

  // Where the next bytes go in the end: who puts them there and then adds them
  // from there spares a copy.
  struct Room {
    char* memory = nullptr;
    size_t size = 0;
  };
  Room room();

  // Bytes that are missing to the message that was begun; 0: none was.
  size_t missing() const { return body_ ? body_->size() - filled_ : 0; }
  // Whether bytes of a message that is not whole are here.
  bool begun() const { return prefix_size_ > 0; }
  // Bytes that wait.
  size_t waiting() const { return waiting_.size() - waiting_begin_; }

 private:
  static constexpr size_t kPrefix = 5;

  bool busy() const { return message_.has_value() || inflater_.has_value(); }
  CallStatus AddSome(std::string_view& bytes, Reserve reserve);
  CallStatus Begin(Reserve reserve);
  void End();

  const size_t max_bytes_;
  Encoding encoding_ = Encoding::kIdentity;
  std::array<unsigned char, kPrefix> prefix_ = {};
  size_t prefix_size_ = 0;
  std::optional<ByteBlock> body_;
  size_t filled_ = 0;
  std::optional<Inflater> inflater_;
  std::optional<ByteChain> message_;
  std::string waiting_;
  size_t waiting_begin_ = 0;  // what is before has moved up
};

}  // namespace stoker
