// One capture of a stream's work as a CUDA graph. Private to libstoker_cuda.so.
#pragma once

#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Device.h>

#include <memory>

#include "absl/functional/function_ref.h"

namespace stoker {

// What `enqueue` enqueues on the current stream, which nothing else uses, with
// memory from `pool`. Under the capture lock, exclusively. Throws what
// `enqueue` or CUDA throws; the capture is over all the same, torch's allocator
// serves the thread as before, and the stream is not to be captured again.
std::unique_ptr<at::cuda::CUDAGraph> RecordGraph(
    c10::Device device, c10::MempoolId_t pool,
    absl::FunctionRef<void()> enqueue);

}  // namespace stoker
