#include "rpc/tensor_codec.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "base/error_text.h"
#include "base/status_macros.h"
#include "repository/model_spec.h"
#include "repository/shape_reader.h"
#include "rpc/bytes_elements.h"
#include "rpc/request_parameters.h"
#include "rpc/requested_outputs.h"
#include "rpc/shared_tensors.h"
#include "rpc/typed_contents.h"
#include "tensor/element.h"

namespace stoker {
namespace {

using InferInput = RequestView::Input;

GivenTensor Given(const InferInput& input) {
  return {input.datatype, input.shape};
}

constexpr std::string_view kBytesName = "BYTES";

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

// Those that aren't made of each batch.
size_t KnownInputs(const ModelSpec& spec) {
  return static_cast<size_t>(std::count_if(
      spec.inputs.begin(), spec.inputs.end(),
      [](const InputSpec& input) { return !input.batch_input.has_value(); }));
}

size_t RequiredInputs(const ModelSpec& spec) {
  return static_cast<size_t>(std::count_if(
      spec.inputs.begin(), spec.inputs.end(),
      [](const InputSpec& input) { return !input.default_value.has_value(); }));
}

absl::Status WrongInputCount(const RequestView& request,
                             const ModelSpec& spec) {
  std::vector<std::string> missing;
  for (const InputSpec& input : spec.inputs) {
    const bool given =
        std::any_of(request.inputs.begin(), request.inputs.end(),
                    [&](const auto& got) { return got.name == input.name; });
    if (!given && !input.default_value.has_value()) {
      missing.push_back(absl::StrCat("'", input.name, "'"));
    }
  }
  const size_t required = RequiredInputs(spec);
  const std::string expected =
      required == KnownInputs(spec)
          ? absl::StrCat(required, " inputs")
          : absl::StrCat("number of inputs between ", required, " and ",
                         KnownInputs(spec));
  std::string text =
      absl::StrCat("expected ", expected, " but got ", request.inputs.size(),
                   " inputs for model '", spec.name, "'. Got input(s) [",
                   NameList(request.inputs), "]");
  if (!missing.empty()) {
    absl::StrAppend(&text, ", but missing required input(s) [",
                    absl::StrJoin(missing, ","), "]");
  }
  return absl::InvalidArgumentError(text);
}

// Position in the request of each of the model's inputs; -1: it is left out.
using Positions = absl::InlinedVector<int, 8>;

absl::StatusOr<Positions> MatchInputs(const RequestView& request,
                                      const ModelSpec& spec) {
  if (request.inputs.size() > spec.inputs.size() ||
      request.inputs.size() < RequiredInputs(spec)) {
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
    if (spec.inputs[index].batch_input.has_value()) {
      return Invalid("input '", Absl(name), "' of model '", spec.name,
                     "' is made of each batch here, and can't be sent");
    }
    if (positions[index] >= 0) {
      return Invalid("input '", Absl(name),
                     "' already exists in request for model '", spec.name, "'");
    }
    positions[index] = static_cast<int>(position);
  }
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < 0 && !spec.inputs[i].default_value.has_value()) {
      return WrongInputCount(request, spec);
    }
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

absl::Status NoData(const ModelSpec& spec, const InputSpec& input) {
  return Invalid("unable to find data for input tensor '", input.name,
                 "' for model '", spec.name, "' in request.");
}

absl::StatusOr<Tensor> ReadTensor(const RequestView& request,
                                  const SharedTensors& shared, size_t position,
                                  const ModelSpec& spec, const InputSpec& input,
                                  const Shape& shape,
                                  std::shared_ptr<const void> owner) {
  const InferInput& got = request.inputs[position];
  const TensorForm form{input.name, spec.name, input.dtype, shape};
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
  return NoData(spec, input);
}

// By input of the model; empty: none has BYTES.
using AllElements = std::vector<std::optional<BytesElements>>;

absl::StatusOr<AllElements> ReadElements(const RequestView& request,
                                         const SharedTensors& shared,
                                         const ModelSpec& spec,
                                         const Positions& positions,
                                         Admit admit) {
  AllElements all;
  for (size_t i = 0; i < positions.size(); ++i) {
    const InputSpec& input = spec.inputs[i];
    if (!input.is_bytes || positions[i] < 0) continue;
    const auto position = static_cast<size_t>(positions[i]);
    const InferInput& got = request.inputs[position];
    const SharedMemoryRange* const range = shared.Input(position);
    const size_t in_message = shared.InMessage(position);
    const RawContents* const raw =
        range == nullptr && in_message < request.raw_input_contents.size()
            ? &request.raw_input_contents[in_message]
            : nullptr;
    if (range == nullptr && raw == nullptr && got.contents == nullptr) {
      return NoData(spec, input);
    }
    const size_t copied = range != nullptr ? range->byte_size
                          : raw != nullptr && raw->scattered != nullptr
                              ? raw->size
                              : 0;
    if (copied > 0) RETURN_IF_ERROR(admit(copied));
    all.resize(positions.size());
    ASSIGN_OR_RETURN(all[i], BytesElements::Read({input.name, spec.name,
                                                  DataType::kBytes, got.shape},
                                                 raw, range, got.contents));
  }
  return all;
}

std::vector<int> LongestFirst(const AllElements& elements) {
  std::vector<int> order;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i].has_value()) order.push_back(static_cast<int>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return elements[a]->longest() > elements[b]->longest();
  });
  return order;
}

size_t ScatteredBytes(const RequestView& request) {
  size_t bytes = 0;
  for (const RawContents& raw : request.raw_input_contents) {
    if (raw.scattered != nullptr) bytes += raw.size;
  }
  return bytes;
}

constexpr size_t kMostBytes = std::numeric_limits<size_t>::max() / 8;

// Of a tensor of such sizes; what depends on the elements counts as nothing.
size_t TensorBytes(DataType dtype, const std::vector<DimExpr>& dims,
                   const DimensionSizes& sizes) {
  Shape shape;
  for (const DimExpr& dim : dims) {
    shape.push_back(dim.Evaluate(sizes).value_or(0));
  }
  const std::optional<int64_t> count = ElementCount(shape);
  int64_t bytes = 0;
  if (!count.has_value() ||
      __builtin_mul_overflow(*count, static_cast<int64_t>(DataTypeSize(dtype)),
                             &bytes)) {
    return kMostBytes;
  }
  return std::min(kMostBytes, static_cast<size_t>(bytes));
}

size_t AnswerBytes(const ModelSpec& spec, const OutputIndices& outputs,
                   const DimensionSizes& sizes) {
  size_t bytes = 0;
  for (const int index : outputs) {
    const OutputSpec& output = spec.outputs[index];
    const size_t own = TensorBytes(output.dtype, output.dims, sizes);
    // Rows of bytes, and behind a length each for clients.
    bytes = std::min(kMostBytes, bytes + own * (output.is_bytes ? 6 : 1));
  }
  return bytes;
}

// Of the inputs that are made here: those that the request leaves out, and rows
// of BYTES.
size_t MadeBytes(const ModelSpec& spec, const Positions& positions,
                 const DimensionSizes& sizes) {
  size_t bytes = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    const InputSpec& input = spec.inputs[i];
    if (positions[i] >= 0 && !input.is_bytes) continue;
    bytes = std::min(kMostBytes,
                     bytes + TensorBytes(input.dtype, input.dims, sizes));
  }
  return bytes;
}

// Once its memory has been asked for.
absl::StatusOr<Tensor> DefaultTensor(const ModelSpec& spec,
                                     const InputSpec& input,
                                     const DimensionSizes& sizes) {
  TensorForm form{input.name, spec.name, input.dtype, {}};
  for (const DimExpr& dim : input.dims) {
    const std::optional<int64_t> size = dim.Evaluate(sizes);
    if (!size.has_value() || *size < 0) {
      return Invalid("input '", input.name, "' for model '", spec.name,
                     "', which the request leaves out, has no size for the "
                     "dimensions of the others");
    }
    form.shape.push_back(*size);
  }
  ASSIGN_OR_RETURN(const size_t bytes, ByteSize(form));
  const size_t each = DataTypeSize(input.dtype);
  const Buffer buffer(bytes);
  FillElements(buffer.data(), static_cast<int64_t>(bytes / each), each,
               EncodeElement(*input.default_value, input.dtype));
  return Tensor{input.dtype, std::move(form.shape), buffer.data(), bytes,
                buffer.share()};
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
  const auto for_each_given = [&](auto visit) -> absl::Status {
    for (size_t i = 0; i < positions.size(); ++i) {
      if (positions[i] < 0) continue;
      RETURN_IF_ERROR(visit(static_cast<int>(i), request.inputs[positions[i]]));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(for_each_given([&](int i, const InferInput& got) {
    const bool later = spec.inputs[i].is_bytes && got.datatype == kBytesName;
    return later ? absl::OkStatus() : shapes.ReadInput(i, Given(got));
  }));
  ASSIGN_OR_RETURN(const AllElements elements,
                   ReadElements(request, shared, spec, positions, admit));
  for (const int i : LongestFirst(elements)) {
    const LongestElement longest{elements[i]->longest(),
                                 elements[i]->longest_index()};
    RETURN_IF_ERROR(
        shapes.ReadInput(i, Given(request.inputs[positions[i]]), &longest));
  }
  shapes.SizeBatchInputs();
  if (shapes.LacksSizes()) {
    RETURN_IF_ERROR(for_each_given([&](int i, const InferInput& got) {
      return shapes.SolveInput(i, Given(got));
    }));
  }
  RETURN_IF_ERROR(for_each_given([&](int i, const InferInput& got) {
    return shapes.CheckInput(i, Given(got));
  }));
  RETURN_IF_ERROR(shapes.CheckBatch());
  RETURN_IF_ERROR(admit(ScatteredBytes(request) + shared.input_bytes() +
                        AnswerBytes(spec, decoded.outputs, shapes.sizes()) +
                        MadeBytes(spec, positions, shapes.sizes())));

  decoded.inputs.resize(positions.size());
  RETURN_IF_ERROR(for_each_given([&](int i, const InferInput& got) {
    if (spec.inputs[i].is_bytes) return absl::OkStatus();
    ASSIGN_OR_RETURN(
        decoded.inputs[i],
        ReadTensor(request, shared, static_cast<size_t>(positions[i]), spec,
                   spec.inputs[i], shapes.ShapeOf(i, Given(got)), owner));
    return absl::OkStatus();
  }));
  // Last, those that are made here: what the others claim to be has arrived.
  for (size_t i = 0; i < positions.size(); ++i) {
    const InputSpec& input = spec.inputs[i];
    if (positions[i] < 0) {
      ASSIGN_OR_RETURN(decoded.inputs[i],
                       DefaultTensor(spec, input, shapes.sizes()));
    } else if (input.is_bytes) {
      const Shape& shape = shapes.ShapeOf(static_cast<int>(i),
                                          Given(request.inputs[positions[i]]));
      ASSIGN_OR_RETURN(
          decoded.inputs[i],
          elements[i]->Rows({input.name, spec.name, input.dtype, shape},
                            static_cast<std::byte>(input.pad_value)));
    }
  }
  decoded.shared_outputs = std::move(shared.outputs);
  decoded.sizes = shapes.sizes();
  decoded.rows = shapes.rows();
  return decoded;
}

}  // namespace stoker
