#include "repository/shape_reader.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/error_text.h"
#include "base/status_macros.h"
#include "repository/model_spec.h"

namespace stoker {
namespace {

constexpr int64_t kUnset = -1;

template <typename... Parts>
absl::Status WrongInput(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// [batch, 1] of BYTES, for [batch]: as Triton's clients send a string for each
// row.
bool IsColumn(const InputSpec& input, const GivenTensor& got) {
  return input.is_bytes && input.dims.size() == 2 && got.shape.size() == 2 &&
         got.shape[1] == 1;
}

// The largest integer for what is larger.
int64_t SizeAt(const DimExpr::Affine& affine, int64_t size) {
  int64_t at = 0;
  const bool overflows = __builtin_mul_overflow(affine.scale, size, &at) ||
                         __builtin_add_overflow(at, affine.offset, &at);
  return overflows ? std::numeric_limits<int64_t>::max() : at;
}

}  // namespace

ShapeReader::ShapeReader(const ModelSpec& spec)
    : spec_(spec),
      sizes_(spec.dimensions.size(), kUnset),
      first_input_(spec.dimensions.size(), kUnset) {}

absl::Status ShapeReader::ReadInput(int index, const GivenTensor& got,
                                    const LongestElement* longest) {
  const InputSpec& input = spec_.inputs[index];
  const DataType dtype = input.is_bytes ? DataType::kBytes : input.dtype;
  if (got.datatype != DataTypeName(dtype)) {
    return WrongInput("inference input '", input.name, "' data-type is '",
                      Excerpt(got.datatype), "', but model '", spec_.name,
                      "' expects '", Absl(DataTypeName(dtype)), "'");
  }
  if (std::any_of(got.shape.begin(), got.shape.end(),
                  [](int64_t d) { return d < 0; })) {
    return WrongInput("All input dimensions should be specified for input '",
                      input.name, "' for model '", spec_.name, "', got ",
                      ShapeExcerpt(got.shape));
  }
  if (input.reshape.has_value()) {
    std::optional<Shape> shape = input.reshape->ToProgram(got.shape);
    if (!shape) return WrongShape(input, got, WrongRankHint(input, got));
    reshaped_.resize(spec_.inputs.size());
    reshaped_[index] = *std::move(shape);
  } else if (IsColumn(input, got)) {
    reshaped_.resize(spec_.inputs.size());
    reshaped_[index] = {got.shape[0]};
  } else if (spec_.ragged() && got.shape.size() == input.dims.size() + 1 &&
             got.shape[0] == 1) {
    // As clients of Triton's have it: a batch of one.
    reshaped_.resize(spec_.inputs.size());
    reshaped_[index].assign(got.shape.begin() + 1, got.shape.end());
  } else if (got.shape.size() + (input.is_bytes ? 1 : 0) != input.dims.size()) {
    return WrongShape(input, got, WrongRankHint(input, got));
  }
  if (input.is_bytes) {
    reshaped_.resize(spec_.inputs.size());
    if (!input.reshape.has_value() && !IsColumn(input, got)) {
      reshaped_[index] = got.shape;
    }
    ASSIGN_OR_RETURN(const int64_t row_bytes, RowBytes(input, *longest));
    reshaped_[index].push_back(row_bytes);
  }
  for (size_t axis = 0; axis < input.dims.size(); ++axis) {
    if (!input.dims[axis].is_dimension()) continue;
    RETURN_IF_ERROR(
        SetDimension(input.dims[axis].dimension(), index, axis, got));
  }
  return absl::OkStatus();
}

const Shape& ShapeReader::ShapeOf(int index, const GivenTensor& got) const {
  const InputSpec& input = spec_.inputs[index];
  const bool reshaped =
      input.reshape.has_value() || input.is_bytes ||
      (spec_.ragged() && got.shape.size() > input.dims.size());
  return reshaped ? reshaped_[index] : got.shape;
}

void ShapeReader::SizeBatchInputs() {
  if (!spec_.ragged()) return;
  for (const InputSpec& input : spec_.inputs) {
    if (!input.batch_input.has_value()) continue;
    SetBatchInputSize(*input.batch_input, input.dims[0], /*requests=*/1,
                      /*longest=*/rows(), absl::MakeSpan(sizes_));
  }
}

bool ShapeReader::LacksSizes() const {
  return std::find(sizes_.begin(), sizes_.end(), kUnset) != sizes_.end();
}

absl::Status ShapeReader::SolveInput(int index, const GivenTensor& got) {
  const InputSpec& input = spec_.inputs[index];
  const Shape& shape = ShapeOf(index, got);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const std::optional<DimExpr::Affine> affine = input.dims[axis].AsAffine();
    if (!affine || sizes_[affine->dimension] != kUnset) continue;
    const std::optional<int64_t> size = affine->Solve(shape[axis]);
    if (!size) {
      return WrongShape(
          input, got,
          absl::StrCat("axis ", axis, " must be a multiple of ", affine->scale,
                       affine->offset == 0
                           ? ""
                           : absl::StrCat(", plus ", affine->offset)));
    }
    sizes_[affine->dimension] = *size;
  }
  return absl::OkStatus();
}

absl::Status ShapeReader::CheckInput(int index, const GivenTensor& got) const {
  const InputSpec& input = spec_.inputs[index];
  const Shape& shape = ShapeOf(index, got);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (input.dims[axis].is_dimension()) continue;
    const std::optional<int64_t> expected = input.dims[axis].Evaluate(sizes_);
    if (expected == shape[axis]) continue;
    return WrongShape(
        input, got,
        expected.has_value()
            ? absl::StrCat("axis ", axis, " must be ", *expected, " here")
            : absl::StrCat("axis ", axis, " has no size for these dimensions"));
  }
  return absl::OkStatus();
}

absl::Status ShapeReader::CheckBatch() const {
  if (spec_.max_batch_size > 0 && rows() > spec_.max_batch_size) {
    return WrongInput("inference request ",
                      spec_.ragged() ? "elements" : "batch-size",
                      " must be <= ", spec_.max_batch_size, " for '",
                      spec_.name, "', got ", rows());
  }
  for (size_t d = 0; d < sizes_.size(); ++d) {
    if (sizes_[d] != kUnset) continue;
    return absl::InternalError(
        absl::StrCat("dimension '", spec_.dimensions[d].name, "' of model '",
                     spec_.name, "' is no axis of any input"));
  }
  return absl::OkStatus();
}

int64_t ShapeReader::rows() const {
  return spec_.batch_dimension.has_value() ? sizes_[*spec_.batch_dimension] : 1;
}

// As long as the longest element, where the other inputs leave that open.
absl::StatusOr<int64_t> ShapeReader::RowBytes(
    const InputSpec& input, const LongestElement& element) const {
  const auto longest = static_cast<int64_t>(element.bytes);
  const DimExpr& last = input.dims.back();
  int64_t most = 0;
  if (last.is_constant()) {
    most = last.constant();
    if (longest <= most) return most;
  } else {
    const DimExpr::Affine affine = *last.AsAffine();
    const DimensionSpec& dimension = spec_.dimensions[affine.dimension];
    const int64_t set = sizes_[affine.dimension];
    const int64_t over = std::max<int64_t>(longest - affine.offset, 0);
    const int64_t wanted =
        over / affine.scale + (over % affine.scale > 0 ? 1 : 0);
    const int64_t most_sizes = set != kUnset ? set : dimension.max;
    if (wanted <= most_sizes) {
      return SizeAt(affine,
                    set != kUnset ? set : std::max(wanted, dimension.min));
    }
    most = SizeAt(affine, most_sizes);
  }
  return WrongInput("input '", input.name, "' for model '", spec_.name,
                    "': string element ", element.index, " has ", longest,
                    " bytes, expected at most ", most);
}

absl::Status ShapeReader::SetDimension(int dimension, int index, size_t axis,
                                       const GivenTensor& got) {
  const int64_t size = ShapeOf(index, got)[axis];
  if (sizes_[dimension] == kUnset) {
    sizes_[dimension] = size;
    first_input_[dimension] = index;
    return absl::OkStatus();
  }
  if (sizes_[dimension] == size) return absl::OkStatus();
  const InputSpec& input = spec_.inputs[index];
  const std::string& other = spec_.inputs[first_input_[dimension]].name;
  if (dimension == spec_.batch_dimension) {
    return WrongInput("input '", input.name,
                      "' batch size does not match other inputs for '",
                      spec_.name, "': ", size, " against ", sizes_[dimension],
                      " of '", other, "'");
  }
  return WrongShape(
      input, got,
      absl::StrCat("dimension '", spec_.dimensions[dimension].name, "' is ",
                   sizes_[dimension], " in input '", other, "'"));
}

std::string ShapeReader::WrongRankHint(const InputSpec& input,
                                       const GivenTensor& got) const {
  const size_t rank = got.shape.size();
  const size_t wanted = input.reshape.has_value()
                            ? input.reshape->dims.size()
                            : input.dims.size() - (input.is_bytes ? 1 : 0);
  if (rank == wanted) return "sizes other than -1 are fixed";
  if (spec_.max_batch_size > 0 && rank + 1 == wanted) {
    return "the first dimension must be the batch";
  }
  return absl::StrCat("expected ", wanted, " dimensions, got ", rank);
}

absl::Status ShapeReader::WrongShape(const InputSpec& input,
                                     const GivenTensor& got,
                                     absl::string_view hint) const {
  Shape expected;
  std::string reshape;
  if (input.reshape.has_value()) {
    expected = input.reshape->dims;
    reshape = absl::StrCat(", reshaped to ", ShapeExcerpt(input.reshape->shape),
                           " for the program");
  } else {
    for (const DimExpr& dim : input.dims) {
      expected.push_back(dim.is_constant() ? dim.constant() : -1);
    }
    if (input.is_bytes) expected.pop_back();
  }
  return WrongInput("unexpected shape for input '", input.name, "' for model '",
                    spec_.name, "'. Expected ", ShapeExcerpt(expected), reshape,
                    ", got ", ShapeExcerpt(got.shape), ": ", hint);
}

}  // namespace stoker
