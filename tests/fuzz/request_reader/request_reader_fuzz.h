// The property that tests/fuzz/request_reader holds RequestReader to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

enum class Reading { kRefused, kInPlace, kPartlyParsed, kParsed };

// Reads the bytes as one slice and cut into many, and compares with what
// generated code makes of them. Aborts where the two differ. Returns how the
// one slice was read.
Reading FuzzRequestReader(const uint8_t* data, size_t size);

}  // namespace stoker
