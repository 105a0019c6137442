// ReadProgram: what an exported program says of itself, as a ModelSpec.

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "program/program_archive.h"
#include "program/program_digest.h"
#include "program/program_signature.h"
#include "repository/model_repository.h"

namespace stoker {
namespace {

// The dimension that is axis 0 of every input and output.
std::optional<int> BatchDimension(const ProgramSignature& program) {
  if (program.inputs.empty() || program.inputs[0].dims.empty() ||
      !program.inputs[0].dims[0].is_dimension()) {
    return std::nullopt;
  }
  const int candidate = program.inputs[0].dims[0].dimension();
  const auto has_it_first = [candidate](const ProgramTensor& tensor) {
    return !tensor.dims.empty() && tensor.dims[0].is_dimension() &&
           tensor.dims[0].dimension() == candidate;
  };
  const bool is_batch =
      std::all_of(program.inputs.begin(), program.inputs.end(), has_it_first) &&
      std::all_of(program.outputs.begin(), program.outputs.end(), has_it_first);
  return is_batch ? std::optional(candidate) : std::nullopt;
}

// "image.2" of a dimension that is an axis, "image.2/8" of one of which the
// axis is eight times the size, "(image.2-1)/8" with one beside that.
std::string NameOf(const DimExpr::Affine& size, absl::string_view axis) {
  std::string name(axis);
  if (size.offset != 0) {
    absl::StrAppend(&name, size.offset < 0 ? "+" : "-",
                    absl::AlphaNum(std::abs(size.offset)));
    if (size.scale != 1) name = absl::StrCat("(", name, ")");
  }
  if (size.scale != 1) absl::StrAppend(&name, "/", size.scale);
  return name;
}

// Names for who gives no others in model.yaml.
void NameDimensions(ModelSpec& spec) {
  for (const bool alone : {true, false}) {
    for (const InputSpec& input : spec.inputs) {
      for (size_t axis = 0; axis < input.dims.size(); ++axis) {
        const auto size = input.dims[axis].AsAffine();
        if (!size || (alone && !input.dims[axis].is_dimension())) continue;
        std::string& name = spec.dimensions[size->dimension].name;
        if (!name.empty()) continue;
        name = spec.batch_dimension == size->dimension
                   ? "batch"
                   : NameOf(*size, absl::StrCat(input.name, ".", axis));
      }
    }
  }
}

}  // namespace

absl::StatusOr<ModelSpec> ReadProgram(const std::string& pt2_path) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const ProgramArchive> archive,
                   ProgramArchive::Open(pt2_path));
  ASSIGN_OR_RETURN(ProgramSignature program, ReadSignature(*archive));
  ModelSpec spec;
  spec.program_path = pt2_path;
  spec.program_file = archive->zip();
  spec.program_digest = ProgramDigest(*archive, program);
  spec.content_digest = ContentDigest(*archive);
  spec.weights_digest = WeightsDigest(*archive);
  spec.weights_bytes = archive->weights_bytes();
  spec.operator_libraries = archive->operator_libraries();
  spec.unlisted_operators = archive->unlisted_operators();
  spec.batch_dimension = BatchDimension(program);
  for (ProgramTensor& input : program.inputs) {
    InputSpec& added = spec.inputs.emplace_back();
    added.name = std::move(input.name);
    added.dtype = input.dtype;
    added.dims = std::move(input.dims);
    if (input.range.has_value()) added.range.emplace(*input.range);
  }
  for (ProgramTensor& output : program.outputs) {
    spec.outputs.push_back({.name = std::move(output.name),
                            .dtype = output.dtype,
                            .dims = std::move(output.dims)});
  }
  for (ProgramDimension& dimension : program.dimensions) {
    DimensionSpec& added = spec.dimensions.emplace_back();
    added.symbol = std::move(dimension.symbol);
    added.min = dimension.min;
    added.max = dimension.max;
  }
  if (spec.batch_dimension) {
    spec.dimensions[*spec.batch_dimension].padding = true;
  }
  NameDimensions(spec);
  return spec;
}

}  // namespace stoker
