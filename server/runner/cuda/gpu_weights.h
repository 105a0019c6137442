// A program's weights in a GPU's memory. Private to libstoker_cuda.so.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "program/program_archive.h"
#include "runner/cuda/gpu.h"
#include "runner/weight_store.h"

namespace stoker {

// Copies them there from the mapped file, through two small pinned buffers: the
// host never holds another copy. RESOURCE_EXHAUSTED with the arithmetic when
// they don't fit; DATA_LOSS when the file was written to meanwhile. The Gpu
// outlives what is returned.
absl::StatusOr<std::shared_ptr<WeightStore>> LoadWeights(
    Gpu& gpu, const ProgramArchive& archive, GpuUse use);

}  // namespace stoker
