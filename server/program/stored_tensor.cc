#include "program/stored_tensor.h"

namespace stoker {

int64_t ExtentBytes(const StoredTensor& tensor) {
  int64_t last = 0;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return 0;
    last += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  return (last + 1) * static_cast<int64_t>(ScalarTypeBytes(tensor.type));
}

}  // namespace stoker
