#include "runner/cuda/graph_recording.h"

#include <ATen/ATen.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <mutex>

#include "absl/cleanup/cleanup.h"

namespace stoker {

GraphPool NewGraphPool() {
  return std::make_shared<const c10::MempoolId_t>(
      at::cuda::graph_pool_handle());
}

// A capture that is always ended. One that is left open keeps its stream
// capturing, and sends the thread's allocations into a pool that nobody
// releases: torch's own class ends neither.
class OpenCapture {
 public:
  OpenCapture(RecordedGraph& graph, c10::Device device)
      : graph_(graph), device_(device), pool_(*graph.pool_) {
    try {
      graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
      begun_ = true;
    } catch (...) {
      Abandon();
      throw;
    }
  }
  ~OpenCapture() {
    if (!over_) Abandon();
  }
  OpenCapture(const OpenCapture&) = delete;
  OpenCapture& operator=(const OpenCapture&) = delete;

  void End() {
    graph_.capture_end();
    over_ = true;
  }

 private:
  // What capture_end does; each step, whether or not the one before failed, as
  // that has ended in an exception.
  void Abandon() noexcept {
    over_ = true;
    const auto attempt = [](auto step) {
      try {
        step();
        return true;
      } catch (...) {
        cudaGetLastError();
        return false;
      }
    };
    // Once: it would lose the graph of a capture that it has ended.
    if (!graph_.capture_ended_) attempt([&] { graph_.capture_end(); });
    // Else operators that draw random numbers would fail from now on.
    for (const auto& [generator, increment] :
         graph_.captured_generator_states_) {
      generator->capturing_ = false;
    }
    if (graph_.capture_ended_) return;  // the pool is released with the graph
    // Released once for each time it was taken, and no more: other graphs may
    // have memory in it. A capture that did not begin may have taken it or not,
    // and then whether it ends tells.
    namespace allocator = c10::cuda::CUDACachingAllocator;
    if (attempt(
            [&] { allocator::endAllocateToPool(device_.index(), pool_); }) ||
        begun_) {
      attempt([&] { allocator::releasePool(device_.index(), pool_); });
    }
    auto* host = at::getHostAllocator(at::kCUDA);
    if (attempt([&] { host->end_allocate_to_pool(pool_); }) || begun_) {
      attempt([&] { host->release_pool(pool_); });
    }
  }

  RecordedGraph& graph_;
  const c10::Device device_;
  const c10::MempoolId_t pool_;
  bool begun_ = false;
  bool over_ = false;
};

std::unique_ptr<RecordedGraph> RecordGraph(c10::Device device, GraphPool pool,
                                           absl::FunctionRef<void()> enqueue) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  C10_CUDA_CHECK(cudaStreamSynchronize(stream));
  // Let go before, the graph's workspace is in its pool, for as long as the
  // graph; let go after, nothing else uses it.
  DropWorkspaces(stream);
  const auto drop = absl::MakeCleanup([stream] { DropWorkspaces(stream); });
  auto graph = std::make_unique<RecordedGraph>(std::move(pool));
  OpenCapture capture(*graph, device);
  enqueue();
  capture.End();
  return graph;
}

void DropWorkspaces(cudaStream_t stream) {
  for (at::cuda::WorkspaceMapWithMutex* const kept :
       {&at::cuda::cublas_handle_stream_to_workspace(),
        &at::cuda::cublaslt_handle_stream_to_workspace()}) {
    const std::unique_lock<std::shared_mutex> lock(kept->mutex);
    std::erase_if(kept->map, [stream](const auto& workspace) {
      return std::get<1>(workspace.first) == static_cast<void*>(stream);
    });
  }
}

}  // namespace stoker
