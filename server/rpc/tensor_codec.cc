#include "rpc/tensor_codec.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/status_macros.h"
#include "repository/model_spec.h"
#include "rpc/error_text.h"
#include "rpc/request_parameters.h"
#include "rpc/requested_outputs.h"
#include "rpc/shared_tensors.h"
#include "rpc/typed_contents.h"

namespace stoker {
namespace {

using InferInput = RequestView::Input;

constexpr int64_t kUnset = -1;

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// "'ids','mask'"; at most 16 names.
template <typename Range>
std::string NameList(const Range& tensors) {
  std::vector<std::string> names;
  for (const auto& tensor : tensors) {
    if (names.size() == 16) {
      names.emplace_back("...");
      break;
    }
    names.push_back(absl::StrCat("'", Excerpt(tensor.name), "'"));
  }
  return absl::StrJoin(names, ",");
}

template <typename Specs>
int IndexOf(const Specs& specs, std::string_view name) {
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

absl::Status WrongInputCount(const RequestView& request,
                             const ModelSpec& spec) {
  std::vector<std::string> missing;
  for (const InputSpec& input : spec.inputs) {
    const bool given =
        std::any_of(request.inputs.begin(), request.inputs.end(),
                    [&](const auto& got) { return got.name == input.name; });
    if (!given) missing.push_back(absl::StrCat("'", input.name, "'"));
  }
  std::string text =
      absl::StrCat("expected ", spec.inputs.size(), " inputs but got ",
                   request.inputs.size(), " inputs for model '", spec.name,
                   "'. Got input(s) [", NameList(request.inputs), "]");
  if (!missing.empty()) {
    absl::StrAppend(&text, ", but missing required input(s) [",
                    absl::StrJoin(missing, ","), "]");
  }
  return absl::InvalidArgumentError(text);
}

// Position in the request of each of the model's inputs.
using Positions = absl::InlinedVector<int, 8>;

absl::StatusOr<Positions> MatchInputs(const RequestView& request,
                                      const ModelSpec& spec) {
  if (request.inputs.size() != spec.inputs.size()) {
    return WrongInputCount(request, spec);
  }
  Positions positions(spec.inputs.size(), -1);
  for (size_t position = 0; position < request.inputs.size(); ++position) {
    const std::string_view name = request.inputs[position].name;
    const int index = IndexOf(spec.inputs, name);
    if (index < 0) {
      return Invalid("unexpected inference input '", Excerpt(name),
                     "' for model '", spec.name, "', which takes ",
                     absl::StrJoin(spec.inputs, ", ", [](auto* out, auto& in) {
                       absl::StrAppend(out, "'", in.name, "'");
                     }));
    }
    if (positions[index] >= 0) {
      return Invalid("input '", Absl(name),
                     "' already exists in request for model '", spec.name, "'");
    }
    positions[index] = static_cast<int>(position);
  }
  return positions;
}

// Raw or typed, never both, and no bytes that belong to no input.
absl::Status CheckRawContents(const RequestView& request,
                              const SharedTensors& shared,
                              const ModelSpec& spec) {
  const size_t raw = request.raw_input_contents.size();
  if (raw == 0) return absl::OkStatus();
  for (const InferInput& input : request.inputs) {
    if (input.contents != nullptr) {
      return Invalid(
          "contents field must not be specified when using raw_input_contents "
          "for '",
          Excerpt(input.name), "' for model '", spec.name, "'");
    }
  }
  const size_t in_message = shared.InMessage(request.inputs.size());
  if (raw > in_message) {
    return Invalid("unexpected raw_input_contents for model '", spec.name,
                   "'. Expected ", in_message, " entries, got ", raw);
  }
  return absl::OkStatus();
}

// The shapes of a request's inputs against the model's: fills in the sizes of
// the dimensions, axis by axis.
class ShapeReader {
 public:
  explicit ShapeReader(const ModelSpec& spec)
      : spec_(spec),
        sizes_(spec.dimensions.size(), kUnset),
        first_input_(spec.dimensions.size(), kUnset) {}

  absl::Status ReadInput(int index, const InferInput& got) {
    const InputSpec& input = spec_.inputs[index];
    if (got.datatype != DataTypeName(input.dtype)) {
      return Invalid("inference input '", input.name, "' data-type is '",
                     Excerpt(got.datatype), "', but model '", spec_.name,
                     "' expects '", Absl(DataTypeName(input.dtype)), "'");
    }
    if (std::any_of(got.shape.begin(), got.shape.end(),
                    [](int64_t d) { return d < 0; })) {
      return Invalid("All input dimensions should be specified for input '",
                     input.name, "' for model '", spec_.name, "', got ",
                     ShapeExcerpt(got.shape));
    }
    if (got.shape.size() != input.dims.size()) {
      return WrongShape(input, got, WrongRankHint(input, got));
    }
    for (size_t axis = 0; axis < got.shape.size(); ++axis) {
      if (!input.dims[axis].is_dimension()) continue;
      RETURN_IF_ERROR(
          SetDimension(input.dims[axis].dimension(), index, axis, got));
    }
    return absl::OkStatus();
  }

  bool LacksSizes() const {
    return std::find(sizes_.begin(), sizes_.end(), kUnset) != sizes_.end();
  }

  // The dimensions that stand alone at no axis; after ReadInput of every input.
  absl::Status SolveInput(int index, const InferInput& got) {
    const InputSpec& input = spec_.inputs[index];
    for (size_t axis = 0; axis < got.shape.size(); ++axis) {
      const std::optional<DimExpr::Affine> affine = input.dims[axis].AsAffine();
      if (!affine || sizes_[affine->dimension] != kUnset) continue;
      const std::optional<int64_t> size = affine->Solve(got.shape[axis]);
      if (!size) {
        return WrongShape(
            input, got,
            absl::StrCat(
                "axis ", axis, " must be a multiple of ", affine->scale,
                affine->offset == 0 ? ""
                                    : absl::StrCat(", plus ", affine->offset)));
      }
      sizes_[affine->dimension] = *size;
    }
    return absl::OkStatus();
  }

  // Constants and expressions; after SolveInput.
  absl::Status CheckInput(int index, const InferInput& got) const {
    const InputSpec& input = spec_.inputs[index];
    for (size_t axis = 0; axis < got.shape.size(); ++axis) {
      if (input.dims[axis].is_dimension()) continue;
      const std::optional<int64_t> expected = input.dims[axis].Evaluate(sizes_);
      if (expected == got.shape[axis]) continue;
      return WrongShape(
          input, got,
          expected.has_value()
              ? absl::StrCat("axis ", axis, " must be ", *expected, " here")
              : absl::StrCat("axis ", axis,
                             " has no size for these dimensions"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckBatch() const {
    if (spec_.max_batch_size > 0 && rows() > spec_.max_batch_size) {
      return Invalid(
          "inference request batch-size must be <= ", spec_.max_batch_size,
          " for '", spec_.name, "', got ", rows());
    }
    for (size_t d = 0; d < sizes_.size(); ++d) {
      if (sizes_[d] != kUnset) continue;
      return absl::InternalError(
          absl::StrCat("dimension '", spec_.dimensions[d].name, "' of model '",
                       spec_.name, "' is no axis of any input"));
    }
    return absl::OkStatus();
  }

  const DimensionSizes& sizes() const { return sizes_; }
  int64_t rows() const {
    return spec_.batch_dimension.has_value() ? sizes_[*spec_.batch_dimension]
                                             : 1;
  }

 private:
  absl::Status SetDimension(int dimension, int index, size_t axis,
                            const InferInput& got) {
    const int64_t size = got.shape[axis];
    if (sizes_[dimension] == kUnset) {
      sizes_[dimension] = size;
      first_input_[dimension] = index;
      return absl::OkStatus();
    }
    if (sizes_[dimension] == size) return absl::OkStatus();
    const InputSpec& input = spec_.inputs[index];
    const std::string& other = spec_.inputs[first_input_[dimension]].name;
    if (dimension == spec_.batch_dimension) {
      return Invalid("input '", input.name,
                     "' batch size does not match other inputs for '",
                     spec_.name, "': ", size, " against ", sizes_[dimension],
                     " of '", other, "'");
    }
    return WrongShape(
        input, got,
        absl::StrCat("dimension '", spec_.dimensions[dimension].name, "' is ",
                     sizes_[dimension], " in input '", other, "'"));
  }

  std::string WrongRankHint(const InputSpec& input,
                            const InferInput& got) const {
    const size_t rank = got.shape.size();
    if (spec_.max_batch_size > 0 && rank + 1 == input.dims.size()) {
      return "the first dimension must be the batch";
    }
    return absl::StrCat("expected ", input.dims.size(), " dimensions, got ",
                        rank);
  }

  absl::Status WrongShape(const InputSpec& input, const InferInput& got,
                          absl::string_view hint) const {
    Shape expected;
    for (const DimExpr& dim : input.dims) {
      expected.push_back(dim.is_constant() ? dim.constant() : -1);
    }
    return Invalid("unexpected shape for input '", input.name, "' for model '",
                   spec_.name, "'. Expected ", ShapeExcerpt(expected), ", got ",
                   ShapeExcerpt(got.shape), ": ", hint);
  }

  const ModelSpec& spec_;
  DimensionSizes sizes_;
  absl::InlinedVector<int, 4> first_input_;
};

absl::StatusOr<Tensor> ReadTensor(const RequestView& request,
                                  const SharedTensors& shared, size_t position,
                                  const ModelSpec& spec, const InputSpec& input,
                                  std::shared_ptr<const void> owner) {
  const InferInput& got = request.inputs[position];
  const TensorForm form{input.name, spec.name, input.dtype, got.shape};
  if (const SharedMemoryRange* range = shared.Input(position)) {
    return TensorFromSharedMemory(form, *range);
  }
  const size_t raw = shared.InMessage(position);
  if (raw < request.raw_input_contents.size()) {
    return TensorFromRaw(form, request.raw_input_contents[raw],
                         std::move(owner));
  }
  if (got.contents != nullptr)
    return TensorFromContents(form, *got.contents, std::move(owner));
  return Invalid("unable to find data for input tensor '", input.name,
                 "' for model '", spec.name, "' in request.");
}

size_t ScatteredBytes(const RequestView& request) {
  size_t bytes = 0;
  for (const RawContents& raw : request.raw_input_contents) {
    if (raw.scattered != nullptr) bytes += raw.size;
  }
  return bytes;
}

// Outputs whose size depends on the elements count as nothing.
size_t AnswerBytes(const ModelSpec& spec, const OutputIndices& outputs,
                   const DimensionSizes& sizes) {
  constexpr size_t kMost = std::numeric_limits<size_t>::max() / 2;
  size_t bytes = 0;
  for (const int index : outputs) {
    const OutputSpec& output = spec.outputs[index];
    Shape shape;
    for (const DimExpr& dim : output.dims) {
      shape.push_back(dim.Evaluate(sizes).value_or(0));
    }
    const std::optional<int64_t> count = ElementCount(shape);
    int64_t of_output = 0;
    if (!count.has_value() ||
        __builtin_mul_overflow(*count,
                               static_cast<int64_t>(DataTypeSize(output.dtype)),
                               &of_output)) {
      return kMost;
    }
    bytes = std::min(kMost, bytes + static_cast<size_t>(of_output));
  }
  return bytes;
}

}  // namespace

absl::StatusOr<DecodedRequest> DecodeRequest(
    const RequestView& request, const ModelSpec& spec,
    const SharedMemoryRegions* regions,
    const std::shared_ptr<const void>& owner, Admit admit) {
  DecodedRequest decoded;
  if (request.parameters != nullptr) {
    ASSIGN_OR_RETURN(const RequestParameters parameters,
                     ParseRequestParameters(*request.parameters));
    decoded.timeout = parameters.timeout;
    decoded.priority = parameters.priority;
  }
  ASSIGN_OR_RETURN(decoded.outputs, SelectOutputs(request, spec));
  ASSIGN_OR_RETURN(decoded.classes,
                   SelectClasses(request, spec, decoded.outputs));

  ASSIGN_OR_RETURN(const Positions positions, MatchInputs(request, spec));
  ASSIGN_OR_RETURN(SharedTensors shared, FindSharedTensors(request, regions));
  RETURN_IF_ERROR(CheckRawContents(request, shared, spec));
  ShapeReader shapes(spec);
  for (size_t i = 0; i < positions.size(); ++i) {
    const InferInput& got = request.inputs[positions[i]];
    RETURN_IF_ERROR(shapes.ReadInput(static_cast<int>(i), got));
  }
  for (size_t i = 0; shapes.LacksSizes() && i < positions.size(); ++i) {
    RETURN_IF_ERROR(
        shapes.SolveInput(static_cast<int>(i), request.inputs[positions[i]]));
  }
  for (size_t i = 0; i < positions.size(); ++i) {
    RETURN_IF_ERROR(
        shapes.CheckInput(static_cast<int>(i), request.inputs[positions[i]]));
  }
  RETURN_IF_ERROR(shapes.CheckBatch());
  RETURN_IF_ERROR(admit(ScatteredBytes(request) + shared.input_bytes() +
                        AnswerBytes(spec, decoded.outputs, shapes.sizes())));

  decoded.inputs.reserve(positions.size());
  for (size_t i = 0; i < positions.size(); ++i) {
    ASSIGN_OR_RETURN(
        Tensor tensor,
        ReadTensor(request, shared, static_cast<size_t>(positions[i]), spec,
                   spec.inputs[i], owner));
    decoded.inputs.push_back(std::move(tensor));
  }
  decoded.shared_outputs = std::move(shared.outputs);
  decoded.sizes = shapes.sizes();
  decoded.rows = shapes.rows();
  return decoded;
}

}  // namespace stoker
