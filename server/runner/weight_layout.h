// How a program's tensors lie in one block of device memory: what is stored
// once is there once, whatever tensors show it. Private to this room; pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "program/stored_tensor.h"

namespace stoker {

struct WeightLayout {
  // Bytes that are copied as they are.
  struct Region {
    const std::byte* host = nullptr;
    int64_t bytes = 0;
    int64_t offset = 0;  // in the block
  };
  std::vector<Region> regions;             // by offset
  int64_t bytes = 0;                       // of the block
  std::map<std::string, int64_t> offsets;  // of each tensor's first element
};

// Each region begins on a multiple of 256 bytes, plus what its host address
// has past a multiple of 64: a tensor is as well aligned as it is in the
// archive, where members begin on multiples of 64, and no better.
WeightLayout LayOutWeights(const StoredTensors& tensors);

}  // namespace stoker
