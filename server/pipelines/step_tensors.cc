#include "pipelines/step_tensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_text.h"
#include "base/status_macros.h"
#include "repository/shape_reader.h"

namespace stoker {
namespace {

// As a client would name it.
struct Seen {
  std::string_view datatype;
  Shape shape;
  LongestElement longest;
};

Seen SeenByClients(const PassedTensor& passed) {
  Seen seen{
      DataTypeName(passed.is_bytes ? DataType::kBytes : passed.tensor.dtype),
      passed.tensor.shape,
      {}};
  if (passed.is_bytes) {
    seen.longest.bytes = static_cast<size_t>(seen.shape.back());
    seen.shape.pop_back();
  }
  return seen;
}

// Rows of the length that `shape` says, filled up with `pad`.
Tensor LongerRows(const Tensor& rows, const Shape& shape, std::byte pad) {
  const auto from = static_cast<size_t>(rows.shape.back());
  const auto to = static_cast<size_t>(shape.back());
  const size_t count = from == 0 ? 0 : rows.byte_size / from;
  const auto bytes = static_cast<size_t>(ElementCount(shape).value_or(0));
  const Buffer buffer(bytes);
  std::memset(buffer.data(), static_cast<int>(pad), bytes);
  for (size_t row = 0; row < count; ++row) {
    std::memcpy(buffer.data() + row * to, rows.data + row * from,
                std::min(from, to));
  }
  return {DataType::kUint8, shape, buffer.data(), bytes, buffer.share()};
}

}  // namespace

absl::StatusOr<StepInputs> BindInputs(
    const ModelSpec& spec, absl::Span<const PassedTensor* const> given) {
  ShapeReader shapes(spec);
  std::vector<Seen> seen;
  seen.reserve(given.size());
  for (const PassedTensor* const passed : given) {
    seen.push_back(SeenByClients(*passed));
  }
  const auto tensor = [&](size_t i) {
    return GivenTensor{seen[i].datatype, seen[i].shape};
  };
  // Those of BYTES last, the longest first: as the reader wants them.
  std::vector<size_t> order(given.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto rank = [&](size_t i) {
      return given[i]->is_bytes
                 ? std::numeric_limits<size_t>::max() - seen[i].longest.bytes
                 : 0;
    };
    return rank(a) < rank(b);
  });
  for (const size_t i : order) {
    RETURN_IF_ERROR(
        shapes.ReadInput(static_cast<int>(i), tensor(i), &seen[i].longest));
  }
  if (shapes.LacksSizes()) {
    for (size_t i = 0; i < given.size(); ++i) {
      RETURN_IF_ERROR(shapes.SolveInput(static_cast<int>(i), tensor(i)));
    }
  }
  for (size_t i = 0; i < given.size(); ++i) {
    RETURN_IF_ERROR(shapes.CheckInput(static_cast<int>(i), tensor(i)));
  }
  RETURN_IF_ERROR(shapes.CheckBatch());

  StepInputs inputs;
  for (size_t i = 0; i < given.size(); ++i) {
    const Shape& shape = shapes.ShapeOf(static_cast<int>(i), tensor(i));
    if (given[i]->is_bytes && shape.back() != given[i]->tensor.shape.back()) {
      inputs.tensors.push_back(
          LongerRows(given[i]->tensor, shape,
                     static_cast<std::byte>(spec.inputs[i].pad_value)));
      continue;
    }
    inputs.tensors.push_back(given[i]->tensor);
    inputs.tensors.back().shape = shape;
  }
  inputs.sizes = shapes.sizes();
  inputs.rows = shapes.rows();
  return inputs;
}

absl::StatusOr<PassedTensor> PassOutput(const ModelSpec& spec, size_t index,
                                        Tensor output) {
  const OutputSpec& known = spec.outputs[index];
  PassedTensor passed{std::move(output), known.is_bytes};
  if (!known.reshape.has_value()) return passed;
  Shape& shape = passed.tensor.shape;
  std::optional<int64_t> row_bytes;
  if (known.is_bytes) {
    row_bytes = shape.back();
    shape.pop_back();
  }
  std::optional<Shape> reshaped = known.reshape->ToClients(shape);
  if (!reshaped.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "output '", known.name, "' for model '", spec.name, "' is ",
        ShapeExcerpt(shape), " for this request, expected ",
        ShapeExcerpt(known.reshape->shape), ", to be reshaped to ",
        ShapeExcerpt(known.reshape->dims)));
  }
  shape = *std::move(reshaped);
  if (row_bytes.has_value()) shape.push_back(*row_bytes);
  return passed;
}

size_t OutputBytes(const ModelSpec& spec, const DimensionSizes& sizes) {
  constexpr size_t kMost = std::numeric_limits<size_t>::max() / 8;
  size_t bytes = 0;
  for (const OutputSpec& output : spec.outputs) {
    Shape shape;
    for (const DimExpr& dim : output.dims) {
      shape.push_back(dim.Evaluate(sizes).value_or(0));
    }
    const auto count =
        static_cast<size_t>(ElementCount(shape).value_or(int64_t{1} << 56));
    bytes = std::min(kMost, bytes + count * DataTypeSize(output.dtype));
  }
  return bytes;
}

}  // namespace stoker
