#include "wire/http_body.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stoker {
namespace {

// Of chunks: the first, and the largest, into which others are put together.
constexpr size_t kFirstBlock = 4 << 10;
constexpr size_t kLargestBlock = 1 << 20;

}  // namespace

CallStatus HttpBody::TooLong() const {
  return {absl::StatusCode::kResourceExhausted,
          absl::StrCat(
              "expected a body of at most ", max_bytes_, " bytes, got ",
              length_.has_value() ? absl::StrCat("one of ", *length_) : "more"),
          "", /*too_long=*/true};
}

CallStatus HttpBody::Begin(Reserve reserve) {
  if (!length_.has_value()) return {};
  if (*length_ > max_bytes_) return TooLong();
  if (CallStatus refused = reserve(*length_); !refused.ok()) return refused;
  block_.emplace(*length_);
  return {};
}

CallStatus HttpBody::Grow(size_t wanted, Reserve reserve) {
  KeepBlock();
  if (arrived_ + wanted > max_bytes_) return TooLong();
  const size_t size =
      std::min(std::clamp(arrived_, std::max(kFirstBlock, wanted),
                          std::max(kLargestBlock, wanted)),
               max_bytes_ - arrived_);
  if (CallStatus refused = reserve(size); !refused.ok()) return refused;
  block_.emplace(size);
  return {};
}

void HttpBody::KeepBlock() {
  if (!block_.has_value()) return;
  body_.Append(block_->Share(0, filled_));
  block_.reset();
  filled_ = 0;
}

CallStatus HttpBody::Add(std::string_view bytes, Reserve reserve) {
  while (!bytes.empty()) {
    if (!block_.has_value() || filled_ == block_->size()) {
      if (CallStatus bad = Grow(bytes.size(), reserve); !bad.ok()) return bad;
    }
    const size_t here = std::min(bytes.size(), block_->size() - filled_);
    std::memcpy(block_->data() + filled_, bytes.data(), here);
    filled_ += here;
    arrived_ += here;
    bytes.remove_prefix(here);
  }
  return {};
}

CallStatus HttpBody::End(Reserve reserve) {
  KeepBlock();
  if (encoding_ == Encoding::kIdentity || body_.size() == 0) return {};
  ByteSlice compressed = body_.slices().front();
  if (body_.slices().size() > 1) {
    if (CallStatus refused = reserve(body_.size()); !refused.ok()) {
      return refused;
    }
    ByteBlock joined(body_.size());
    size_t at = 0;
    for (const ByteSlice& slice : body_.slices()) {
      std::memcpy(joined.data() + at, slice.data, slice.size);
      at += slice.size;
    }
    compressed = joined.Share();
  }
  body_.Clear();
  inflater_.emplace(encoding_, std::move(compressed), max_bytes_);
  return {};
}

CallStatus HttpBody::Step(Reserve reserve) {
  CallStatus bad = inflater_->Step(reserve);
  if (bad.code == absl::StatusCode::kInternal) {
    bad.code = absl::StatusCode::kInvalidArgument;
  }
  if (!bad.ok()) return bad;
  if (inflater_->done()) {
    body_ = inflater_->Take();
    inflater_.reset();
  }
  return {};
}

}  // namespace stoker
