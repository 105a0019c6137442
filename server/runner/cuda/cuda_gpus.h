// The GPUs that CUDA shows this process. Private to libstoker_cuda.so and its
// tests.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runner/gpus.h"

namespace stoker {

// OpenGpus (runner/gpus.h), from inside the library.
absl::StatusOr<std::unique_ptr<Gpus>> OpenCudaGpus(const GpuOptions& options);

}  // namespace stoker
