// A tensor as a .pt2 archive stores it: a view of the mapped file. Private to
// this room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace stoker {

// The element types of torch's export schema (its ScalarType).
enum class StoredType : int {
  kByte = 1,
  kChar = 2,
  kShort = 3,
  kInt = 4,
  kLong = 5,
  kHalf = 6,
  kFloat = 7,
  kDouble = 8,
  kComplexHalf = 9,
  kComplexFloat = 10,
  kComplexDouble = 11,
  kBool = 12,
  kBFloat16 = 13,
  kUInt16 = 28,
  kFloat8E4M3FN = 29,
  kFloat8E5M2 = 30,
};

// Bytes per element; 0 for a type that is not known here.
size_t ElementSize(int type);

struct StoredTensor {
  StoredType type = StoredType::kFloat;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;     // in elements, not negative
  const std::byte* data = nullptr;  // the first element, naturally aligned
  bool is_parameter = false;
};

// From its first element to the end of its last, of a tensor that an archive
// has accepted.
int64_t ExtentBytes(const StoredTensor& tensor);

// By qualified name. Tied weights appear under each of their names with the
// same `data`.
using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

}  // namespace stoker
