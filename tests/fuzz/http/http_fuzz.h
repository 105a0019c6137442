// What tests/fuzz/http holds HTTP/1.1's half of the transport to: whatever a
// peer sends, no request is lost and no memory of one, and the loop goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace stoker {

struct HttpOutcome {
  int requests = 0;  // that reached a handler
  int bodies = 0;    // that they got
  std::string answers;
  bool hung_up = false;
};

// Sends the bytes to a loop on this thread, and then hangs up. Aborts where a
// request outlives that, or a body is not what was reserved.
HttpOutcome FuzzHttp(const uint8_t* data, size_t size);

}  // namespace stoker
