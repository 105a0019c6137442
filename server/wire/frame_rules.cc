#include "wire/frame_rules.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>

namespace stoker {
namespace {

// A piece of a message below this moves nothing to speak of.
constexpr size_t kMinData = 5;

}  // namespace

bool FrameRules::IsUseless(const FrameMeter::Head& head) {
  switch (head.type) {
    case NGHTTP2_DATA:
      return head.length < kMinData &&
             (head.flags & NGHTTP2_FLAG_END_STREAM) == 0;
    case NGHTTP2_HEADERS:
    case NGHTTP2_CONTINUATION:
      return false;
    default:
      return true;
  }
}

bool FrameRules::IsAboutAll(const FrameMeter::Head& head) {
  return head.type == NGHTTP2_GOAWAY || (head.type == NGHTTP2_SETTINGS &&
                                         (head.flags & NGHTTP2_FLAG_ACK) == 0);
}

size_t FrameRules::SettingsOf(const FrameMeter::Head& head) {
  constexpr size_t kEntryBytes = 6;
  return head.type == NGHTTP2_SETTINGS ? head.length / kEntryBytes : 0;
}

uint32_t FrameRules::ErrorOf(const FrameMeter::Head& head) {
  if (head.stream == 0) {
    return head.type == NGHTTP2_PRIORITY ? NGHTTP2_PROTOCOL_ERROR
                                         : NGHTTP2_NO_ERROR;
  }
  const bool sends = head.type == NGHTTP2_DATA || head.type == NGHTTP2_HEADERS;
  if (sends &&
      std::find(ended_.begin(), ended_.end(), head.stream) != ended_.end()) {
    return NGHTTP2_STREAM_CLOSED;
  }
  if ((sends && (head.flags & NGHTTP2_FLAG_END_STREAM) != 0) ||
      head.type == NGHTTP2_RST_STREAM) {
    ended_[next_++ % ended_.size()] = head.stream;
  }
  return NGHTTP2_NO_ERROR;
}

}  // namespace stoker
