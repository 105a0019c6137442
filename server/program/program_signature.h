// What an exported program takes and gives back: names, dtypes and sizes of its
// inputs and outputs, and which of those sizes are free. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "program/program_archive.h"
#include "tensor/dim_expr.h"
#include "tensor/tensor.h"

namespace stoker {

struct ProgramTensor {
  std::string name;  // the author's, case kept
  DataType dtype = DataType::kFp32;
  std::vector<DimExpr> dims;
  // Of an integer input: the values that the operators which take it leave it,
  // closed; unset: nothing is known.
  std::optional<std::pair<int64_t, int64_t>> range;
};

// One symbol of the exported graph.
struct ProgramDimension {
  std::string symbol;  // in the graph: "s43"
  int64_t min = 1;
  int64_t max = 1;  // inclusive; INT64_MAX when the program gives none
};

struct ProgramSignature {
  std::vector<ProgramTensor> inputs;  // in the program's flat order
  std::vector<ProgramTensor> outputs;
  // Each alone at some axis of an input, or by a multiple of it (8 * height),
  // which is read for it then. Those that stand alone come first, each kind in
  // the inputs' order.
  std::vector<ProgramDimension> dimensions;
};

// INVALID_ARGUMENT, with path and place, for what can't be served: inputs and
// outputs that are neither tensors nor fixed (program/fixed_values.h), inputs
// exported with strides that are not contiguous or with a size that doesn't
// follow from the dimensions, mutated inputs or buffers, dtypes the protocol
// does not have.
absl::StatusOr<ProgramSignature> ReadSignature(const ProgramArchive& archive);

}  // namespace stoker
