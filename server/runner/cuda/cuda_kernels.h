// Whether a GPU can run a program's operators at all. Private to
// libstoker_cuda.so.
#pragma once

#include "absl/status/status.h"
#include "program/program_archive.h"

namespace stoker {

// INVALID_ARGUMENT, with the operator and the line that calls it, for a program
// with one that is for CPUs only: the server's own for detectors
// (runner/vision_operators.h) and mixtures of experts, what a decomposition for
// CPUs leaves, somebody's library without code for GPUs. It would fail at its
// first run, compiled or not. When torch's CUDA half and the libraries of
// operators are loaded.
absl::Status CheckHasCudaKernels(const ProgramArchive& archive);

}  // namespace stoker
