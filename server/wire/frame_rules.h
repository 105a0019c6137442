// Rules that the heads of a peer's frames are held to by themselves: nghttp2
// forgets a stream when it is closed, passes over what comes on it, and over
// priorities.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/frame_meter.h"

namespace stoker {

class FrameRules {
 public:
  // Whether a frame moves nothing to speak of.
  static bool IsUseless(const FrameMeter::Head& head);
  // Whether each open stream is looked at for it.
  static bool IsAboutAll(const FrameMeter::Head& head);
  // How many settings are in it.
  static size_t SettingsOf(const FrameMeter::Head& head);

  // HTTP/2's code for what is wrong with the next frame; 0: nothing. A peer
  // that goes on after it said that it won't has lost count; of a stream that
  // this side has ended it may not know yet.
  uint32_t ErrorOf(const FrameMeter::Head& head);

 private:
  // The last streams that the peer has said it sends no more on.
  std::array<uint32_t, 16> ended_ = {};
  size_t next_ = 0;
};

}  // namespace stoker
