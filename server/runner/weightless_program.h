// A changed program whose weights are inputs like others. nativert has to be
// given a changed one as a file, and loads the weights of a file into memory of
// its own: they would be written once more only to be read once more, and there
// are programs with gigabytes of them. Given at each run they may lie anywhere,
// such as in the mapped archive or in a GPU's memory. Private to this room.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/file_descriptor.h"
#include "program/program_archive.h"
#include "tensor/device.h"

namespace stoker {

struct WeightlessProgram {
  FileDescriptor file;  // to be opened as PathOfDescriptor says
  // For each of its flat inputs the name of the parameter, buffer or constant
  // that it takes; empty: the next of the inputs that the program has itself.
  std::vector<std::string> inputs;
};

// `archive`'s program, as its reader rewrote it, for `device`
// (device_program.h). INVALID_ARGUMENT for a program that torch.export.save
// doesn't write; RESOURCE_EXHAUSTED when there is no memory for the graph.
absl::StatusOr<WeightlessProgram> WriteWeightlessProgram(
    const ProgramArchive& archive, const Device& device);

// The flat inputs of a run: what a request gives, in its order, where
// `weights`, by flat input, has none. INTERNAL when the numbers don't fit.
absl::StatusOr<std::vector<c10::IValue>> WithWeights(
    absl::Span<const at::Tensor> weights, std::vector<c10::IValue> given);

}  // namespace stoker
