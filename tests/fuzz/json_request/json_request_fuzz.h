// What tests/fuzz/json_request holds the reader of JSON requests to: whatever
// the text is, no more memory than was said, and no element beyond its room.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

// True: it was read. Aborts where the above doesn't hold.
bool FuzzJsonRequest(const uint8_t* data, size_t size);

}  // namespace stoker
