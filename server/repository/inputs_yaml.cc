#include "repository/inputs_yaml.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "repository/tensor_dims.h"

namespace stoker {
namespace {

// A number that an element of `dtype` can have.
std::optional<double> ReadElement(const YamlValue& value, DataType dtype,
                                  bool may_be_infinite) {
  if (dtype == DataType::kBool &&
      (value.text() == "true" || value.text() == "false")) {
    return value.text() == "true" ? 1 : 0;
  }
  const std::optional<double> number = value.Number();
  if (!number) return std::nullopt;
  if (may_be_infinite && IsFloating(dtype) && std::isinf(*number)) {
    return number;
  }
  const auto [least, most] = LimitsOf(dtype);
  const bool whole = IsFloating(dtype) || std::floor(*number) == *number;
  if (whole && *number >= least && *number <= most) return number;
  value.Error(absl::StrCat(IsFloating(dtype) ? "a number" : "a whole number",
                           " from ", least, " to ", most, " (",
                           std::string(DataTypeName(dtype)), ")"));
  return std::nullopt;
}

void ReadRange(const YamlValue& value, InputSpec& input) {
  const auto ends = value.List();
  if (!ends) return;
  if (ends->size() != 2) return value.Error("[least, most]");
  const auto least = ReadElement((*ends)[0], input.dtype, false);
  const auto most = ReadElement((*ends)[1], input.dtype, false);
  if (!least || !most) return;
  if (*least > *most) {
    return value.Error("[least, most]",
                       absl::StrCat("[", *least, ", ", *most, "]"));
  }
  input.range.emplace(*least, *most);
}

template <typename Specs>
std::vector<std::string> NamesOf(const Specs& specs) {
  std::vector<std::string> names;
  names.reserve(specs.size());
  for (const auto& spec : specs) names.push_back(spec.name);
  return names;
}

std::string ReadName(const YamlValue& value, const std::string& name) {
  constexpr size_t kMaxName = 256;
  if (!value.text().empty() && value.text().size() <= kMaxName) {
    return value.text();
  }
  value.Error(absl::StrCat("a name of 1 to ", kMaxName, " bytes"));
  return name;
}

template <typename Specs>
void CheckNames(const YamlValue& value, const Specs& specs) {
  std::set<std::string> seen;
  for (const auto& spec : specs) {
    if (!seen.insert(spec.name).second) {
      value.Error("different names", absl::StrCat(spec.name, " for two"));
    }
  }
}

std::optional<Shape> ReadDims(const YamlValue& value) {
  constexpr size_t kMaxRank = 64;
  const auto sizes = value.List();
  if (!sizes) return std::nullopt;
  if (sizes->size() > kMaxRank) {
    value.Error(absl::StrCat("at most ", kMaxRank, " sizes"));
    return std::nullopt;
  }
  Shape dims;
  for (const YamlValue& size : *sizes) {
    const auto number = size.Int(-1, std::numeric_limits<int64_t>::max());
    if (!number) return std::nullopt;
    dims.push_back(*number);
  }
  return dims;
}

bool HasBatch(const ModelSpec& spec) {
  return spec.batch_dimension.has_value() && spec.max_batch_size > 0;
}

// BYTES, or what the program has.
template <typename TensorSpec>
void ReadDatatype(const YamlValue& value, const ModelSpec& spec,
                  TensorSpec& tensor) {
  const std::string own(DataTypeName(tensor.dtype));
  const bool has_rows = HasRows(tensor.dtype, tensor.dims, HasBatch(spec));
  tensor.is_bytes = has_rows && value.text() == "BYTES";
  if (tensor.is_bytes || value.text() == own) return;
  value.Error(absl::StrCat("the program's ", own,
                           has_rows ? ", or BYTES for rows of it" : ""));
}

// `dims` and `reshape` of a tensor, either of which may be null; both without
// the batch.
template <typename TensorSpec>
void ReadReshape(const YamlValue* dims, const YamlValue* shape,
                 const ModelSpec& spec, TensorSpec& tensor) {
  if (dims == nullptr) {
    if (shape != nullptr) shape->Error("dims beside it", "none");
    return;
  }
  const bool batched = HasBatch(spec);
  const absl::Span<const DimExpr> own =
      OwnDims(tensor.dims, batched, tensor.is_bytes);
  Reshape reshape;
  for (const DimExpr& dim : own) {
    reshape.shape.push_back(dim.is_constant() ? dim.constant() : -1);
  }
  if (shape != nullptr) {
    const std::optional<Shape> given = ReadDims(*shape);
    if (!given) return;
    reshape.shape = *given;
    bool fits = own.size() == given->size();
    for (size_t axis = 0; fits && axis < own.size(); ++axis) {
      fits = CanBe(own[axis], (*given)[axis], spec.dimensions);
    }
    if (!fits) {
      return shape->Error(absl::StrCat("the program's ", DimsText(own),
                                       batched ? ", without the batch" : ""),
                          DimsText(*given));
    }
  }
  const std::optional<Shape> outside = ReadDims(*dims);
  if (!outside) return;
  reshape.dims = *outside;
  const std::string expected = reshape.Mistake(
      shape != nullptr
          ? absl::StrCat("dims ", DimsText(reshape.dims))
          : absl::StrCat("the program's ", DimsText(reshape.shape)));
  if (!expected.empty()) {
    return shape != nullptr ? shape->Error(expected, DimsText(reshape.shape))
                            : dims->Error(expected, DimsText(reshape.dims));
  }
  if (batched) {
    reshape.dims.insert(reshape.dims.begin(), -1);
    reshape.shape.insert(reshape.shape.begin(), -1);
  }
  if (reshape.dims != reshape.shape) tensor.reshape = std::move(reshape);
}

// What a request leaves out has the sizes of what it has.
void CheckDefault(const YamlValue& value, const InputSpec& input,
                  const ModelSpec& spec) {
  for (size_t d = 0; d < spec.dimensions.size(); ++d) {
    const auto index = static_cast<int>(d);
    const auto is_size = [index](const DimExpr& dim) {
      const auto affine = dim.AsAffine();
      return affine.has_value() && affine->dimension == index;
    };
    const bool known = std::any_of(
        spec.inputs.begin(), spec.inputs.end(), [&](const InputSpec& other) {
          return !other.default_value.has_value() &&
                 std::any_of(other.dims.begin(), other.dims.end(), is_size);
        });
    const bool asked = std::any_of(
        input.dims.begin(), input.dims.end(),
        [index](const DimExpr& dim) { return dim.DependsOn(index); });
    if (known || !asked) continue;
    return value.Error(absl::StrCat("inputs without default that have the ",
                                    "dimension ", spec.dimensions[d].name),
                       "none");
  }
}

// Each of the tensors that `value` names with its fields.
template <typename TensorSpec, typename ReadField>
void ReadTensors(const YamlValue& value, const std::vector<std::string>& fields,
                 const ModelSpec& spec, std::vector<TensorSpec>& tensors,
                 ReadField read_field) {
  const std::vector<std::string> names = NamesOf(tensors);
  const auto entries = value.Map(names);
  if (!entries) return;
  for (const auto& [name, entry] : *entries) {
    const auto given = entry.Map(fields);
    if (!given) continue;
    TensorSpec& tensor = tensors[static_cast<size_t>(
        std::find(names.begin(), names.end(), name) - names.begin())];
    const YamlValue* dims = nullptr;
    const YamlValue* shape = nullptr;
    for (const auto& [key, field] : *given) {
      if (key == "name") {
        tensor.name = ReadName(field, name);
      } else if (key == "dims") {
        dims = &field;
      } else if (key == "reshape") {
        shape = &field;
      } else if (key == "datatype") {
        ReadDatatype(field, spec, tensor);
      } else {
        read_field(key, field, tensor);
      }
    }
    ReadReshape(dims, shape, spec, tensor);
  }
  CheckNames(value, tensors);
}

}  // namespace

void ReadInputs(const YamlValue& value, ModelSpec& spec) {
  std::vector<std::pair<const InputSpec*, YamlValue>> defaults;
  const auto read = [&defaults](std::string_view key, const YamlValue& field,
                                InputSpec& input) {
    if (key == "range") return ReadRange(field, input);
    const std::optional<double> element =
        ReadElement(field, input.dtype, /*may_be_infinite=*/true);
    if (key == "pad_value") {
      input.pad_value = element.value_or(0);
    } else {
      input.default_value = element;
      defaults.emplace_back(&input, field);
    }
  };
  const auto fields = std::vector<std::string>{
      "pad_value", "range", "name", "datatype", "dims", "reshape", "default"};
  ReadTensors(value, fields, spec, spec.inputs, read);
  for (const auto& [input, field] : defaults) CheckDefault(field, *input, spec);
  for (const InputSpec& input : spec.inputs) {
    if (!input.is_bytes || input.dims.back().is_constant() ||
        input.dims.back().AsAffine().has_value()) {
      continue;
    }
    value.Error("BYTES for rows of a size that is fixed or a dimension",
                absl::StrCat(input.name, ", whose follows from several"));
  }
}

void ReadOutputs(const YamlValue& value, ModelSpec& spec) {
  const auto fields =
      std::vector<std::string>{"name", "datatype", "dims", "reshape"};
  ReadTensors(value, fields, spec, spec.outputs,
              [](std::string_view, const YamlValue&, OutputSpec&) {});
}

}  // namespace stoker
