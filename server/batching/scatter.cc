#include "batching/scatter.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "batching/padding.h"

namespace stoker {
namespace {

// The output's shape at `sizes`; -1 where it is unknown.
Shape ShapeAt(const BatchLayout::Output& output,
              absl::Span<const int64_t> sizes) {
  Shape shape;
  for (const DimExpr& dim : output.dims) {
    shape.push_back(dim.Evaluate(sizes).value_or(-1));
  }
  return shape;
}

bool IsAsExpected(const Tensor& tensor, DataType dtype, const Shape& shape) {
  if (tensor.dtype != dtype || tensor.shape.size() != shape.size()) {
    return false;
  }
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] != -1 && shape[axis] != tensor.shape[axis]) return false;
  }
  const std::optional<int64_t> count = ElementCount(tensor.shape);
  return count &&
         static_cast<size_t>(*count) ==
             tensor.byte_size / DataTypeSize(dtype) &&
         tensor.byte_size % DataTypeSize(dtype) == 0 &&
         (tensor.byte_size == 0 || tensor.data != nullptr);
}

// `rows` rows of a tensor of rank 1 or more, without a copy.
Tensor RowsOf(const Tensor& tensor, int64_t first_row, int64_t rows) {
  Tensor part = tensor;
  part.shape[0] = rows;
  const size_t row_bytes =
      tensor.shape[0] == 0
          ? 0
          : tensor.byte_size / static_cast<size_t>(tensor.shape[0]);
  part.byte_size = row_bytes * static_cast<size_t>(rows);
  part.data += row_bytes * static_cast<size_t>(first_row);
  return part;
}

// Smaller ones are copied by whoever sends them, and keep nothing for long.
constexpr size_t kLeastKept = 4096;

// Whether a client that doesn't take these rows would keep the rows of others,
// of which no request is charged: more than as much again.
bool KeepsMuchElse(const Tensor& rows, const Tensor& all) {
  return rows.byte_size >= kLeastKept && rows.byte_size < all.byte_size / 2;
}

Tensor CutCopy(const Tensor& tensor, const Shape& shape) {
  Tensor cut;
  cut.dtype = tensor.dtype;
  cut.shape = shape;
  const size_t element_size = DataTypeSize(tensor.dtype);
  cut.byte_size =
      static_cast<size_t>(ElementCount(shape).value_or(0)) * element_size;
  Buffer buffer(cut.byte_size);
  CopyResized(tensor.data, tensor.shape, buffer.data(), shape, element_size,
              ElementBytes{});
  cut.data = buffer.data();
  cut.owner = buffer.share();
  return cut;
}

absl::Status TooSmall(size_t index, const Tensor& tensor, const Shape& shape,
                      int64_t first_row) {
  return absl::InternalError(absl::StrCat(
      "output ", index, ": expected at least ", ShapeString(shape),
      " from row ", first_row, ", got ", ShapeString(tensor.shape)));
}

}  // namespace

absl::Status CheckOutputs(const BatchLayout& layout,
                          absl::Span<const int64_t> sizes,
                          absl::Span<const Tensor> outputs) {
  if (outputs.size() != layout.outputs.size()) {
    return absl::InternalError(absl::StrCat("expected ", layout.outputs.size(),
                                            " outputs of the run, got ",
                                            outputs.size()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const DataType dtype = layout.outputs[i].dtype;
    const Shape shape = ShapeAt(layout.outputs[i], sizes);
    if (DataTypeSize(dtype) != 0 && IsAsExpected(outputs[i], dtype, shape)) {
      continue;
    }
    return absl::InternalError(absl::StrCat(
        "output ", i, ": expected ", std::string(DataTypeName(dtype)), " ",
        ShapeString(shape), ", got ",
        std::string(DataTypeName(outputs[i].dtype)), " ",
        ShapeString(outputs[i].shape), " in ", outputs[i].byte_size, " bytes"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> CutOutputs(const BatchLayout& layout,
                                               absl::Span<const Tensor> outputs,
                                               absl::Span<const int64_t> sizes,
                                               int64_t first_row,
                                               int64_t task) {
  std::vector<Tensor> cut;
  cut.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& tensor = outputs[i];
    Shape shape = ShapeAt(layout.outputs[i], sizes);
    const int64_t first =
        layout.HasTasks(layout.outputs[i].dims) ? task : first_row;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] == -1) shape[axis] = tensor.shape[axis];
      const int64_t offset = axis == 0 ? first : 0;
      if (shape[axis] + offset > tensor.shape[axis]) {
        return TooSmall(i, tensor, shape, first);
      }
    }
    if (shape == tensor.shape) {
      cut.push_back(tensor);
      continue;
    }
    Tensor rows = RowsOf(tensor, first, shape[0]);
    const bool shares = rows.shape == shape && !KeepsMuchElse(rows, tensor);
    cut.push_back(shares ? std::move(rows) : CutCopy(rows, shape));
  }
  return cut;
}

}  // namespace stoker
