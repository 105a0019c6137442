#include "tensor/tensor.h"

#include <algorithm>
#include <array>
#include <limits>
#include <new>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stoker {
namespace {

constexpr std::align_val_t kAlignment{64};

struct TypeRow {
  DataType dtype;
  std::string_view name;
  size_t size;
  ValueLimits limits;
};

constexpr double kExact = 9007199254740992;  // 2^53
constexpr double kMostFloat = std::numeric_limits<float>::max();
constexpr double kMostDouble = std::numeric_limits<double>::max();

// In the order of the enumerators, so that an enumerator is its row's index.
constexpr std::array<TypeRow, 14> kTypes = {{
    {DataType::kBool, "BOOL", 1, {0, 1}},
    {DataType::kUint8, "UINT8", 1, {0, 255}},
    {DataType::kUint16, "UINT16", 2, {0, 65535}},
    {DataType::kUint32, "UINT32", 4, {0, 4294967295}},
    {DataType::kUint64, "UINT64", 8, {0, kExact}},
    {DataType::kInt8, "INT8", 1, {-128, 127}},
    {DataType::kInt16, "INT16", 2, {-32768, 32767}},
    {DataType::kInt32, "INT32", 4, {-2147483648.0, 2147483647}},
    {DataType::kInt64, "INT64", 8, {-kExact, kExact}},
    {DataType::kFp16, "FP16", 2, {-65504, 65504}},
    {DataType::kFp32, "FP32", 4, {-kMostFloat, kMostFloat}},
    {DataType::kFp64, "FP64", 8, {-kMostDouble, kMostDouble}},
    {DataType::kBf16, "BF16", 2, {-kMostFloat, kMostFloat}},
    {DataType::kBytes, "BYTES", 0, {0, -1}},
}};

constexpr bool RowsFollowEnumerators() {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (static_cast<size_t>(kTypes[i].dtype) != i) return false;
  }
  return true;
}
static_assert(RowsFollowEnumerators());

const TypeRow& Row(DataType dtype) {
  return kTypes[static_cast<size_t>(dtype)];
}

}  // namespace

std::string_view DataTypeName(DataType dtype) { return Row(dtype).name; }

std::optional<DataType> ParseDataType(std::string_view name) {
  const auto* row =
      std::find_if(kTypes.begin(), kTypes.end(),
                   [&](const TypeRow& r) { return r.name == name; });
  if (row == kTypes.end()) return std::nullopt;
  return row->dtype;
}

size_t DataTypeSize(DataType dtype) { return Row(dtype).size; }

ValueLimits LimitsOf(DataType dtype) { return Row(dtype).limits; }

bool IsInteger(DataType dtype) {
  return dtype >= DataType::kUint8 && dtype <= DataType::kInt64;
}

bool IsFloating(DataType dtype) {
  return dtype >= DataType::kFp16 && dtype <= DataType::kBf16;
}

std::optional<int64_t> ElementCount(absl::Span<const int64_t> shape) {
  // A zero anywhere makes the count zero, whatever the other factors overflow
  // to.
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0) return std::nullopt;
    empty |= size == 0;
  }
  if (empty) return 0;
  int64_t count = 1;
  for (int64_t size : shape) {
    if (count > std::numeric_limits<int64_t>::max() / size) return std::nullopt;
    count *= size;
  }
  return count;
}

std::string ShapeString(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

Buffer::Buffer(size_t bytes)
    : data_(static_cast<std::byte*>(
                ::operator new(std::max<size_t>(bytes, 1), kAlignment)),
            [](std::byte* data) { ::operator delete(data, kAlignment); }),
      size_(bytes) {}

}  // namespace stoker
