// Plain values that every room may hold: dtype, shape, and a view of host
// memory.
//
// Thread-safety: all types are values; a Tensor's bytes are immutable while any
// Tensor shows them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace stoker {

// The Open Inference Protocol's dtypes. kBytes has no fixed size and no torch
// form.
enum class DataType : uint8_t {
  kBool,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFp16,
  kFp32,
  kFp64,
  kBf16,
  kBytes,
};

// The protocol's name: "BOOL", "INT64", "FP32", "BF16", "BYTES", ...
std::string_view DataTypeName(DataType dtype);
std::optional<DataType> ParseDataType(std::string_view name);
// Bytes per element; 0 for kBytes.
size_t DataTypeSize(DataType dtype);
bool IsInteger(DataType dtype);  // kUint8..kInt64, not kBool
bool IsFloating(DataType dtype);

struct ValueLimits {
  double least;
  double most;
};
// The finite numbers that an element can be. kUint64 and kInt64 end at 2^53,
// behind which a double skips some; kBf16 has kFp32's, the last of which it
// rounds to infinity. Empty (least > most) for kBytes.
ValueLimits LimitsOf(DataType dtype);

using Shape = absl::InlinedVector<int64_t, 6>;

// Number of elements; nullopt when a dimension is negative or the product
// exceeds int64. 1 for rank 0.
std::optional<int64_t> ElementCount(absl::Span<const int64_t> shape);
// "[1,16]"
std::string ShapeString(absl::Span<const int64_t> shape);

// A contiguous row-major tensor in host memory. `owner` keeps the bytes alive
// and may be null when somebody else does (say so where it happens).
struct Tensor {
  DataType dtype = DataType::kFp32;
  Shape shape;
  const std::byte* data = nullptr;
  size_t byte_size = 0;
  std::shared_ptr<const void> owner;
};

// Uninitialised host memory, 64-byte aligned: what compiled kernels assume.
class Buffer {
 public:
  explicit Buffer(size_t bytes);  // bytes may be 0
  // Memory of another kind, as well aligned.
  Buffer(std::shared_ptr<std::byte> data, size_t bytes)
      : data_(std::move(data)), size_(bytes) {}
  std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  std::shared_ptr<const void> share() const { return data_; }

 private:
  std::shared_ptr<std::byte> data_;
  size_t size_;
};

}  // namespace stoker
