#include "wire/message_assembler.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stoker {

CallStatus MessageAssembler::Add(std::string_view bytes, Reserve reserve) {
  while (!bytes.empty()) {
    if (busy() || waiting() > 0) {
      Keep(bytes);
      return {};
    }
    if (CallStatus bad = AddSome(bytes, reserve); !bad.ok()) return bad;
  }
  return {};
}

CallStatus MessageAssembler::AddSome(std::string_view& bytes, Reserve reserve) {
  if (!body_.has_value()) {
    const size_t here = std::min(bytes.size(), kPrefix - prefix_size_);
    std::memcpy(prefix_.data() + prefix_size_, bytes.data(), here);
    prefix_size_ += here;
    bytes.remove_prefix(here);
    if (prefix_size_ < kPrefix) return {};
    if (CallStatus bad = Begin(reserve); !bad.ok()) return bad;
  }
  const size_t here = std::min(bytes.size(), body_->size() - filled_);
  std::byte* const place = body_->data() + filled_;
  if (here > 0 && reinterpret_cast<const std::byte*>(bytes.data()) != place) {
    std::memcpy(place, bytes.data(), here);
  }
  filled_ += here;
  bytes.remove_prefix(here);
  if (filled_ == body_->size()) End();
  return {};
}

MessageAssembler::Room MessageAssembler::room() {
  if (!body_.has_value() || busy() || waiting() > 0) return {};
  return {reinterpret_cast<char*>(body_->data() + filled_), missing()};
}

CallStatus MessageAssembler::Begin(Reserve reserve) {
  const bool compressed = prefix_[0] == 1;
  if (prefix_[0] > 1) {
    return {absl::StatusCode::kInternal,
            absl::StrCat("expected a message's flag of 0 or 1, got ",
                         int{prefix_[0]}),
            ""};
  }
  if (compressed && encoding_ == Encoding::kIdentity) {
    return {absl::StatusCode::kInternal,
            "got a compressed message, expected grpc-encoding to say how", ""};
  }
  const size_t size = uint32_t{prefix_[1]} << 24 | uint32_t{prefix_[2]} << 16 |
                      uint32_t{prefix_[3]} << 8 | uint32_t{prefix_[4]};
  if (size > max_bytes_) {
    return {absl::StatusCode::kResourceExhausted,
            absl::StrCat("expected a message of at most ", max_bytes_,
                         " bytes, got one of ", size),
            "", /*too_long=*/true};
  }
  if (CallStatus refused = reserve(size); !refused.ok()) return refused;
  body_.emplace(size);
  filled_ = 0;
  return {};
}

void MessageAssembler::End() {
  const ByteSlice whole = body_->Share();
  if (prefix_[0] == 1) {
    inflater_.emplace(encoding_, whole, max_bytes_);
  } else {
    message_.emplace();
    message_->Append(whole);
  }
  body_.reset();
  prefix_size_ = 0;
}

CallStatus MessageAssembler::Step(Reserve reserve) {
  if (CallStatus bad = inflater_->Step(reserve); !bad.ok()) return bad;
  if (inflater_->done()) {
    message_ = inflater_->Take();
    inflater_.reset();
  }
  return {};
}

ByteChain MessageAssembler::Take() {
  ByteChain message = *std::move(message_);
  message_.reset();
  return message;
}

CallStatus MessageAssembler::Resume(Reserve reserve) {
  std::string_view rest = std::string_view(waiting_).substr(waiting_begin_);
  CallStatus status;
  while (status.ok() && !busy() && !rest.empty()) {
    status = AddSome(rest, reserve);
  }
  waiting_begin_ = waiting_.size() - rest.size();
  if (rest.empty()) {
    waiting_.clear();
    waiting_begin_ = 0;
  }
  return status;
}

}  // namespace stoker
