// What tests/fuzz/wire holds the transport to: whatever a peer sends, no call
// is lost and no memory of one, and the loop goes on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

// How far the bytes got.
struct WireOutcome {
  int frames = 0;    // that were sent
  int calls = 0;     // that reached a handler
  int messages = 0;  // that they got
  bool hung_up = false;
};

// Sends the bytes behind HTTP/2's greeting to a loop on this thread, and then
// hangs up. Aborts where a call outlives that.
WireOutcome FuzzWire(const uint8_t* data, size_t size);

}  // namespace stoker
