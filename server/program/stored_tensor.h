// A weight or constant as a .pt2 archive stores it: a view of the mapped file.
// Plain values; the bytes live as long as the archive that they are views of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "program/scalar_type.h"

namespace stoker {

struct StoredTensor {
  ScalarType type = ScalarType::kFloat;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;     // in elements, not negative
  int64_t offset = 0;               // in elements, from the member's first
  const std::byte* data = nullptr;  // the first element, naturally aligned
  std::string member;               // of the archive; tied tensors share one
  std::string device;               // where it was saved from: "cpu" or "cuda"
  bool is_parameter = false;
};

// From its first element to the end of its last, of a tensor that ReadPayload
// has accepted.
int64_t ExtentBytes(const StoredTensor& tensor);

// By qualified name ("encoder.layer.0.weight"). Tied weights appear under each
// of their names with the same `data`.
using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

}  // namespace stoker
