#include "wire/frame_meter.h"

#include <algorithm>
#include <cstring>

namespace stoker {

void FrameMeter::Add(std::string_view bytes,
                     absl::FunctionRef<void(const Head&)> see) {
  while (!bytes.empty()) {
    const size_t skipped = std::min(skip_, bytes.size());
    skip_ -= skipped;
    bytes.remove_prefix(skipped);
    if (skipped > 0) CountUnfinished(skipped);
    const size_t here = std::min(kHead - head_size_, bytes.size());
    if (here > 0) std::memcpy(head_.data() + head_size_, bytes.data(), here);
    head_size_ += here;
    bytes.remove_prefix(here);
    if (head_size_ < kHead) continue;
    head_size_ = 0;
    skip_ = size_t{head_[0]} << 16 | size_t{head_[1]} << 8 | head_[2];
    const uint32_t stream = uint32_t{head_[5]} << 24 |
                            uint32_t{head_[6]} << 16 | uint32_t{head_[7]} << 8 |
                            uint32_t{head_[8]};
    last_ = {skip_, head_[3], head_[4], stream & 0x7FFF'FFFF};
    see(last_);
  }
}

void FrameMeter::CountUnfinished(size_t bytes) {
  constexpr uint8_t kHeaders = 1, kGoaway = 7, kContinuation = 9;
  constexpr uint8_t kEndHeaders = 4;
  const bool headers = last_.type == kHeaders || last_.type == kContinuation;
  if (!headers && last_.type != kGoaway) return;
  unfinished_ += bytes;
  const bool last = !headers || (last_.flags & kEndHeaders) != 0;
  if (last && skip_ == 0) unfinished_ = 0;
}

}  // namespace stoker
