// What a loaded version takes of the host's memory, as far as it can be known
// of each one. Not in it, as nobody's: the process itself, torch's code, and
// what a run takes and gives back. Plain values.
#pragma once

#include <cstdint>

namespace stoker {

// Bytes.
struct HostMemory {
  // The mapped program's, as if all of them were resident: one run has read
  // them all. None on a GPU, where there is a copy of them.
  int64_t weights = 0;
  // Copies laid out for oneDNN: of linear layers since an artifact was opened,
  // of convolutions since the first run of a size.
  int64_t packed = 0;
  int64_t eager = 0;  // eager's own copy of the weights, while it is open
  int64_t code = 0;   // shared libraries of compiled buckets

  int64_t total() const { return weights + packed + eager + code; }
};

}  // namespace stoker
