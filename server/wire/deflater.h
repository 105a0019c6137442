// Compresses messages: what Inflater undoes, but all at once.
//
// Thread-safe: pure functions.
#pragma once

#include "wire/byte_chain.h"
#include "wire/encoding.h"

namespace stoker {

// Smaller messages are not worth it.
constexpr size_t kLeastDeflated = 1 << 10;

// Takes the place of the message's bytes, fast rather than small: some 100
// MB/s. False: there is no memory for it, and the message is what it was.
bool Deflate(Encoding encoding, ByteChain& message);

}  // namespace stoker
