// Tensors from values and back, for tests.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace stoker {

// Owned bytes, 64-byte aligned; `misalign` moves them that many bytes off.
template <typename T>
Tensor MakeTensor(DataType dtype, Shape shape, const std::vector<T>& values,
                  size_t misalign = 0) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.byte_size = values.size() * sizeof(T);
  const Buffer buffer(tensor.byte_size + misalign);
  if (!values.empty()) {
    std::memcpy(buffer.data() + misalign, values.data(), tensor.byte_size);
  }
  tensor.data = buffer.data() + misalign;
  tensor.owner = buffer.share();
  return tensor;
}

template <typename T>
std::vector<T> ValuesOf(const Tensor& tensor) {
  std::vector<T> values(tensor.byte_size / sizeof(T));
  if (!values.empty()) {
    std::memcpy(values.data(), tensor.data, tensor.byte_size);
  }
  return values;
}

}  // namespace stoker
