// One capture of a stream's work as a CUDA graph. Private to libstoker_cuda.so.
#pragma once

#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"

namespace stoker {

// Memory that graphs share whose replays never overlap. torch takes no pool
// back whose last graph is gone, so each graph holds on to its own, and who
// captures into one that nothing holds makes another.
using GraphPool = std::shared_ptr<const c10::MempoolId_t>;
GraphPool NewGraphPool();

class RecordedGraph : private at::cuda::CUDAGraph {
 public:
  explicit RecordedGraph(GraphPool pool) : pool_(std::move(pool)) {}
  // Under the capture lock, exclusively.
  ~RecordedGraph() { reset(); }  // before the pool is let go
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;

  // Enqueues it on the current stream.
  void Replay() { replay(); }

 private:
  friend class OpenCapture;
  const GraphPool pool_;
};

// What `enqueue` enqueues on the current stream, which nothing else uses, with
// memory from `pool`. Under the capture lock, exclusively. Throws what
// `enqueue` or CUDA throws; the capture is over all the same, torch's allocator
// and random generator serve the thread as before, and the stream is not to be
// captured again.
std::unique_ptr<RecordedGraph> RecordGraph(c10::Device device, GraphPool pool,
                                           absl::FunctionRef<void()> enqueue);

// cuBLAS' workspaces belong to streams, torch keeps them for ever, and on some
// GPUs each has 32 MiB. Lets go those of a stream, on which nothing runs.
void DropWorkspaces(cudaStream_t stream);

}  // namespace stoker
