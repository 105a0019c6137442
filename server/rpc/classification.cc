#include "rpc/classification.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/status_macros.h"
#include "repository/model_spec.h"
#include "rpc/append_bytes_element.h"

namespace stoker {
namespace {

// Calls `visit` with a value of the C++ type that elements have; false when
// they have none that can be put in order.
template <typename Visit>
bool WithType(DataType dtype, Visit visit) {
  switch (dtype) {
    case DataType::kUint8:
      visit(uint8_t{});
      return true;
    case DataType::kUint16:
      visit(uint16_t{});
      return true;
    case DataType::kUint32:
      visit(uint32_t{});
      return true;
    case DataType::kUint64:
      visit(uint64_t{});
      return true;
    case DataType::kInt8:
      visit(int8_t{});
      return true;
    case DataType::kInt16:
      visit(int16_t{});
      return true;
    case DataType::kInt32:
      visit(int32_t{});
      return true;
    case DataType::kInt64:
      visit(int64_t{});
      return true;
    case DataType::kFp32:
      visit(float{});
      return true;
    case DataType::kFp64:
      visit(double{});
      return true;
    case DataType::kBool:
    case DataType::kFp16:
    case DataType::kBf16:
    case DataType::kBytes:
      return false;
  }
  return false;
}

bool HasBatch(const ModelSpec& spec, int index) {
  const std::vector<DimExpr>& dims =
      spec.outputs[static_cast<size_t>(index)].dims;
  return spec.batch_dimension.has_value() && spec.max_batch_size > 0 &&
         !dims.empty() && dims[0].is_dimension() &&
         dims[0].dimension() == *spec.batch_dimension;
}

// A before B.
template <typename T>
bool Larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return false;
    if (std::isnan(b)) return true;
  }
  return a > b;
}

// One row's.
template <typename T>
void AppendClasses(const std::byte* row, size_t elements, size_t count,
                   const std::vector<std::string>* labels,
                   std::vector<uint32_t>& order, std::string& bytes) {
  // Rows in an answer's memory may have any alignment.
  const auto value = [row](uint32_t at) {
    T element;
    std::memcpy(&element, row + at * sizeof(T), sizeof(T));
    return element;
  };
  order.resize(elements);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(),
                    order.begin() + static_cast<ptrdiff_t>(count), order.end(),
                    [&](uint32_t a, uint32_t b) {
                      if (Larger(value(a), value(b))) return true;
                      if (Larger(value(b), value(a))) return false;
                      return a < b;
                    });
  for (size_t i = 0; i < count; ++i) {
    const uint32_t at = order[i];
    std::string text = absl::StrCat(std::to_string(value(at)), ":", at);
    if (labels != nullptr && at < labels->size()) {
      absl::StrAppend(&text, ":", (*labels)[at]);
    }
    AppendBytesElement(text, bytes);
  }
}

}  // namespace

absl::Status CheckClassified(const ModelSpec& spec, int index) {
  const OutputSpec& output = spec.outputs[static_cast<size_t>(index)];
  const DataType dtype = output.is_bytes ? DataType::kBytes : output.dtype;
  if (WithType(dtype, [](auto) {})) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("class result not available for output '", output.name,
                   "' of model '", spec.name, "' due to unsupported type '",
                   Absl(DataTypeName(dtype)), "'"));
}

absl::StatusOr<Tensor> Classify(const ModelSpec& spec, int index,
                                const Tensor& output, size_t count) {
  RETURN_IF_ERROR(CheckClassified(spec, index));
  const bool batched = HasBatch(spec, index) && !output.shape.empty();
  const int64_t rows = batched ? output.shape[0] : 1;
  const auto all = static_cast<size_t>(ElementCount(output.shape).value_or(0));
  const size_t elements = rows == 0 ? 0 : all / static_cast<size_t>(rows);
  constexpr size_t kMaxElements = std::numeric_limits<uint32_t>::max();
  if (elements > kMaxElements) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at most ", kMaxElements,
                     " elements to classify, got ", elements));
  }
  count = std::min(count, elements);
  std::string bytes;
  std::vector<uint32_t> order;
  const size_t row_bytes = elements * DataTypeSize(output.dtype);
  for (int64_t row = 0; row < rows; ++row) {
    const std::byte* const data =
        output.data + static_cast<size_t>(row) * row_bytes;
    WithType(output.dtype, [&](auto type) {
      AppendClasses<decltype(type)>(data, elements, count, spec.labels.get(),
                                    order, bytes);
    });
  }
  Tensor classes;
  classes.dtype = DataType::kBytes;
  if (batched) classes.shape.push_back(rows);
  classes.shape.push_back(static_cast<int64_t>(count));
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  classes.data = reinterpret_cast<const std::byte*>(owner->data());
  classes.byte_size = owner->size();
  classes.owner = owner;
  return classes;
}

}  // namespace stoker
