#include "runner/stored_tensor.h"

namespace stoker {

size_t ElementSize(int type) {
  switch (static_cast<StoredType>(type)) {
    case StoredType::kByte:
    case StoredType::kChar:
    case StoredType::kBool:
    case StoredType::kFloat8E4M3FN:
    case StoredType::kFloat8E5M2:
      return 1;
    case StoredType::kShort:
    case StoredType::kHalf:
    case StoredType::kBFloat16:
    case StoredType::kUInt16:
      return 2;
    case StoredType::kInt:
    case StoredType::kFloat:
    case StoredType::kComplexHalf:
      return 4;
    case StoredType::kLong:
    case StoredType::kDouble:
    case StoredType::kComplexFloat:
      return 8;
    case StoredType::kComplexDouble:
      return 16;
  }
  return 0;
}

int64_t ExtentBytes(const StoredTensor& tensor) {
  int64_t last = 0;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return 0;
    last += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  const auto type = static_cast<int>(tensor.type);
  return (last + 1) * static_cast<int64_t>(ElementSize(type));
}

}  // namespace stoker
