#include "program/program_signature.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "program/dim_expr_parser.h"
#include "program/input_ranges.h"
#include "program/json_cursor.h"
#include "program/leaf_names.h"
#include "program/limits.h"
#include "program/scalar_type.h"
#include "tensor/shape_bucket.h"

namespace stoker {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

using SymbolTable = std::map<std::string, int, std::less<>>;

class SignatureReader {
 public:
  explicit SignatureReader(const JsonCursor& program) : program_(program) {}

  absl::StatusOr<ProgramSignature> Read() {
    RETURN_IF_ERROR(ReadSpecs());
    RETURN_IF_ERROR(ReadDimensions());
    RETURN_IF_ERROR(ReadInputs());
    RETURN_IF_ERROR(ReadOutputs());
    return std::move(read_);
  }

 private:
  absl::Status ReadSpecs() {
    ASSIGN_OR_RETURN(const JsonCursor module, program_.Member("graph_module"));
    ASSIGN_OR_RETURN(const JsonCursor signature, module.Member("signature"));
    ASSIGN_OR_RETURN(const JsonCursor inputs, signature.Member("input_specs"));
    ASSIGN_OR_RETURN(const std::vector<JsonCursor> inputs_list,
                     inputs.Elements());
    for (const JsonCursor& input : inputs_list) {
      RETURN_IF_ERROR(ReadInputSpec(input));
    }
    ASSIGN_OR_RETURN(const JsonCursor outputs,
                     signature.Member("output_specs"));
    ASSIGN_OR_RETURN(const std::vector<JsonCursor> outputs_list,
                     outputs.Elements());
    for (const JsonCursor& output : outputs_list) {
      RETURN_IF_ERROR(ReadOutputSpec(output));
    }
    return ReadNames(module);
  }

  absl::Status ReadInputSpec(const JsonCursor& cursor) {
    ASSIGN_OR_RETURN(const auto input, cursor.Union());
    const auto& [kind, body] = input;
    if (kind == "user_input") {
      ASSIGN_OR_RETURN(std::string tensor,
                       TensorArgument(body, "a tensor input"));
      input_tensors_.push_back(std::move(tensor));
      return absl::OkStatus();
    }
    // The program's own, which the archive holds.
    if (kind == "parameter" || kind == "buffer" || kind == "tensor_constant") {
      return absl::OkStatus();
    }
    return cursor.Error(
        "a tensor input (bake constants into the exported module)",
        absl::StrCat("a ", kind));
  }

  absl::Status ReadOutputSpec(const JsonCursor& cursor) {
    ASSIGN_OR_RETURN(const auto output, cursor.Union());
    const auto& [kind, body] = output;
    if (kind != "user_output") {
      std::string of;
      for (const char* member :
           {"buffer_name", "parameter_name", "user_input_name"}) {
        ASSIGN_OR_RETURN(const auto changed, body.Find(member));
        if (!changed.has_value()) continue;
        ASSIGN_OR_RETURN(const std::string name, changed->String());
        of = absl::StrCat(" of '", name, "'");
      }
      return cursor.Error(
          "an output of a program that keeps no state and changes no input "
          "(call eval() before the export; what a model has to remember goes "
          "in as an input, and out as an output)",
          absl::StrCat("a ", kind, of));
    }
    ASSIGN_OR_RETURN(std::string tensor,
                     TensorArgument(body, "a tensor output"));
    output_tensors_.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  // The name inside {"arg": {"as_tensor": {"name": "x"}}}.
  static absl::StatusOr<std::string> TensorArgument(const JsonCursor& spec,
                                                    std::string_view what) {
    ASSIGN_OR_RETURN(const JsonCursor argument, spec.Member("arg"));
    ASSIGN_OR_RETURN(const auto tagged, argument.Union());
    const auto& [tag, body] = tagged;
    if (tag != "as_tensor") {
      return argument.Error(what, tag);
    }
    ASSIGN_OR_RETURN(const JsonCursor name, body.Member("name"));
    return name.String();
  }

  absl::Status ReadNames(const JsonCursor& module) {
    ASSIGN_OR_RETURN(LeafNames names, ReadLeafNames(module, input_tensors_));
    if (names.inputs.size() != input_tensors_.size() ||
        names.outputs.size() != output_tensors_.size()) {
      return module.Error(
          absl::StrCat("a calling convention of ", input_tensors_.size(),
                       " inputs and ", output_tensors_.size(), " outputs"),
          absl::StrCat(names.inputs.size(), " and ", names.outputs.size()));
    }
    for (std::string& name : names.inputs) {
      read_.inputs.emplace_back().name = std::move(name);
    }
    for (std::string& name : names.outputs) {
      read_.outputs.emplace_back().name = std::move(name);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<JsonCursor> TensorMeta(const std::string& tensor) const {
    ASSIGN_OR_RETURN(const JsonCursor module, program_.Member("graph_module"));
    ASSIGN_OR_RETURN(const JsonCursor graph, module.Member("graph"));
    ASSIGN_OR_RETURN(const JsonCursor values, graph.Member("tensor_values"));
    return values.Member(tensor);
  }

  // Dimensions are the symbols that can be read off a request: those that stand
  // alone at an axis of an input, and then those that are the only one at an
  // axis (8 * s43).
  absl::Status ReadDimensions() {
    RETURN_IF_ERROR(ReadSymbols(SymbolName));
    return ReadSymbols(OnlySymbol);
  }

  absl::Status ReadSymbols(std::string_view (*symbol_of)(std::string_view)) {
    for (const std::string& tensor : input_tensors_) {
      ASSIGN_OR_RETURN(const JsonCursor meta, TensorMeta(tensor));
      ASSIGN_OR_RETURN(const JsonCursor sizes, meta.Member("sizes"));
      ASSIGN_OR_RETURN(const std::vector<JsonCursor> axes, sizes.Elements());
      for (const JsonCursor& axis : axes) {
        ASSIGN_OR_RETURN(const std::string text, Expression(axis));
        const std::string symbol(symbol_of(text));
        if (symbol.empty() || symbols_.contains(symbol)) continue;
        symbols_.emplace(symbol, static_cast<int>(read_.dimensions.size()));
        ProgramDimension& dimension = read_.dimensions.emplace_back();
        dimension.symbol = symbol;
        RETURN_IF_ERROR(ReadBounds(dimension));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadBounds(ProgramDimension& dimension) const {
    dimension.min = 1;
    dimension.max = kUnbounded;
    ASSIGN_OR_RETURN(const JsonCursor ranges,
                     program_.Member("range_constraints"));
    ASSIGN_OR_RETURN(const std::optional<JsonCursor> range,
                     ranges.Find(dimension.symbol));
    if (!range) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::optional<JsonCursor> min,
                     range->Find("min_val"));
    ASSIGN_OR_RETURN(const std::optional<JsonCursor> max,
                     range->Find("max_val"));
    if (min) {
      ASSIGN_OR_RETURN(const int64_t value, min->Int());
      // Export writes 0 for "no bound"; nobody sends an empty batch.
      dimension.min = std::max<int64_t>(1, value);
    }
    if (max) {
      ASSIGN_OR_RETURN(const int64_t value, max->Int());
      // Older exports wrote sys.maxsize - 1 for "no bound".
      dimension.max = value >= kUnbounded - 1 ? kUnbounded : value;
    }
    if (dimension.max < dimension.min) {
      return range->Error(absl::StrCat("a range from ", dimension.min, " up"));
    }
    return absl::OkStatus();
  }

  // The text of a size that is an expression; empty for a plain number.
  static absl::StatusOr<std::string> Expression(const JsonCursor& size) {
    ASSIGN_OR_RETURN(const std::optional<JsonCursor> expr,
                     size.Find("as_expr"));
    if (!expr) return std::string();
    ASSIGN_OR_RETURN(const JsonCursor text, expr->Member("expr_str"));
    return text.String();
  }

  absl::StatusOr<std::vector<DimExpr>> ReadSizes(const JsonCursor& list) const {
    ASSIGN_OR_RETURN(const std::vector<JsonCursor> elements, list.Elements());
    if (elements.size() > kMaxArgumentRank) {
      return list.Error(absl::StrCat("at most ", kMaxArgumentRank, " axes"));
    }
    std::vector<DimExpr> sizes;
    for (const JsonCursor& element : elements) {
      ASSIGN_OR_RETURN(const std::string text, Expression(element));
      if (!text.empty()) {
        sizes.push_back(ParseDimExpr(text, symbols_));
        continue;
      }
      ASSIGN_OR_RETURN(const JsonCursor number, element.Member("as_int"));
      ASSIGN_OR_RETURN(const int64_t size, number.Int());
      if (size < 0) return number.Error("a size that is not negative");
      sizes.push_back(DimExpr::Constant(size));
    }
    return sizes;
  }

  static absl::StatusOr<DataType> ReadDataType(const JsonCursor& meta) {
    ASSIGN_OR_RETURN(const JsonCursor layout, meta.Member("layout"));
    if (layout.value() != kStridedLayout) return layout.Error("a dense layout");
    ASSIGN_OR_RETURN(const JsonCursor dtype, meta.Member("dtype"));
    ASSIGN_OR_RETURN(const int64_t code, dtype.Int());
    const std::optional<ScalarType> stored = ScalarTypeOfCode(code);
    const std::optional<DataType> type =
        stored ? DataTypeOf(*stored) : std::nullopt;
    if (!type) {
      return dtype.Error(
          "a dtype that the inference protocol has (no complex numbers, no "
          "8-bit floating point)");
    }
    return *type;
  }

  // Its dtype and dimensions; returns the list of its sizes.
  absl::StatusOr<JsonCursor> ReadTensor(const JsonCursor& meta,
                                        ProgramTensor& tensor) const {
    ASSIGN_OR_RETURN(tensor.dtype, ReadDataType(meta));
    ASSIGN_OR_RETURN(const JsonCursor sizes, meta.Member("sizes"));
    ASSIGN_OR_RETURN(tensor.dims, ReadSizes(sizes));
    return sizes;
  }

  absl::Status ReadInputs() {
    const std::map<std::string, IntegerRange> ranges =
        InputRanges(program_.value());
    for (size_t i = 0; i < input_tensors_.size(); ++i) {
      ProgramTensor& input = read_.inputs[i];
      ASSIGN_OR_RETURN(const JsonCursor meta, TensorMeta(input_tensors_[i]));
      ASSIGN_OR_RETURN(const JsonCursor sizes, ReadTensor(meta, input));
      for (size_t axis = 0; axis < input.dims.size(); ++axis) {
        RETURN_IF_ERROR(CheckSize(sizes, input, axis));
      }
      RETURN_IF_ERROR(CheckContiguous(meta, input));
      const auto range = ranges.find(input_tensors_[i]);
      const bool is_wide =
          input.dtype == DataType::kInt32 || input.dtype == DataType::kInt64;
      if (range != ranges.end() && is_wide) input.range = range->second;
    }
    return CheckDimensions();
  }

  // What a size is has to follow from the dimensions, and each of these from
  // some size.
  absl::Status CheckSize(const JsonCursor& sizes, const ProgramTensor& input,
                         size_t axis) {
    const DimensionSizes ones(read_.dimensions.size(), 1);
    if (!input.dims[axis].Evaluate(ones).has_value()) {
      return sizes.Error(
          absl::StrCat("every axis of input ", input.name,
                       " to be a constant, a dimension or computed from some"),
          absl::StrCat("something else at axis ", axis));
    }
    if (const auto affine = input.dims[axis].AsAffine()) {
      readable_.insert(affine->dimension);
    }
    return absl::OkStatus();
  }

  absl::Status CheckDimensions() const {
    for (size_t i = 0; i < read_.dimensions.size(); ++i) {
      if (readable_.contains(static_cast<int>(i))) continue;
      return program_.Error(
          absl::StrCat("an axis of an input that is ",
                       read_.dimensions[i].symbol,
                       " or a multiple of it (8 * height, batch + 1)"),
          "other expressions of it only");
    }
    return absl::OkStatus();
  }

  // Compiled code assumes the strides of the sample inputs, and requests are
  // always contiguous.
  absl::Status CheckContiguous(const JsonCursor& meta,
                               const ProgramTensor& input) const {
    ASSIGN_OR_RETURN(const JsonCursor list, meta.Member("strides"));
    ASSIGN_OR_RETURN(const std::vector<DimExpr> strides, ReadSizes(list));
    if (strides.size() != input.dims.size()) {
      return list.Error("as many strides as sizes");
    }
    DimensionSizes sizes;  // distinct where the bounds let them be
    for (const ProgramDimension& dimension : read_.dimensions) {
      const int64_t wanted = 3 + 2 * static_cast<int64_t>(sizes.size());
      sizes.push_back(std::clamp(wanted, dimension.min, dimension.max));
    }
    int64_t expected = 1;
    for (size_t axis = strides.size(); axis-- > 0;) {
      const std::optional<int64_t> size = input.dims[axis].Evaluate(sizes);
      if (size == 0) return absl::OkStatus();
      if (size != 1 && strides[axis].Evaluate(sizes) != expected) {
        return list.Error(
            absl::StrCat("input ", input.name,
                         " to be contiguous (export with contiguous sample "
                         "inputs)"),
            absl::StrCat("another stride at axis ", axis));
      }
      if (__builtin_mul_overflow(expected, *size, &expected)) {
        return list.Error("a tensor of fewer than 2^63 elements");
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadOutputs() {
    for (size_t i = 0; i < output_tensors_.size(); ++i) {
      ASSIGN_OR_RETURN(const JsonCursor meta, TensorMeta(output_tensors_[i]));
      RETURN_IF_ERROR(ReadTensor(meta, read_.outputs[i]).status());
    }
    return absl::OkStatus();
  }

  const JsonCursor& program_;
  ProgramSignature read_;
  std::vector<std::string> input_tensors_;  // the graph's names, flat order
  std::vector<std::string> output_tensors_;
  SymbolTable symbols_;
  std::set<int> readable_;  // dimensions that some axis tells
};

}  // namespace

absl::StatusOr<ProgramSignature> ReadSignature(const ProgramArchive& archive) {
  const JsonCursor program(archive.program(), archive.program_place());
  return SignatureReader(program).Read();
}

}  // namespace stoker
