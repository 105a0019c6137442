#include "runner/cuda/graph_recording.h"

#include <ATen/ATen.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "absl/cleanup/cleanup.h"

namespace stoker {
namespace {

class Graph : public at::cuda::CUDAGraph {
 public:
  bool ended() const { return capture_ended_; }
};

// A capture that is always ended. One that is left open keeps its stream
// capturing, and sends the thread's allocations into a pool that nobody
// releases: torch's own class ends neither.
class OpenCapture {
 public:
  OpenCapture(Graph& graph, c10::Device device, c10::MempoolId_t pool)
      : graph_(graph), device_(device), pool_(pool) {
    try {
      graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    } catch (...) {
      Abandon();
      throw;
    }
  }
  ~OpenCapture() {
    if (!over_) Abandon();
  }
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
      } catch (...) {
        cudaGetLastError();
      }
    };
    attempt([&] { graph_.capture_end(); });
    if (graph_.ended()) return;  // the pool is released with the graph
    namespace allocator = c10::cuda::CUDACachingAllocator;
    attempt([&] { allocator::endAllocateToPool(device_.index(), pool_); });
    attempt([&] { allocator::releasePool(device_.index(), pool_); });
    auto* host = at::getHostAllocator(at::kCUDA);
    attempt([&] { host->end_allocate_to_pool(pool_); });
    attempt([&] { host->release_pool(pool_); });
  }

  Graph& graph_;
  const c10::Device device_;
  const c10::MempoolId_t pool_;
  bool over_ = false;
};

}  // namespace

std::unique_ptr<at::cuda::CUDAGraph> RecordGraph(
    c10::Device device, c10::MempoolId_t pool,
    absl::FunctionRef<void()> enqueue) {
  C10_CUDA_CHECK(
      cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream().stream()));
  // cuBLAS' workspaces belong to streams. Let go before, the graph's is in its
  // pool, for as long as the graph; let go after, nothing else uses it.
  at::cuda::clearCublasWorkspaces();
  const auto clear =
      absl::MakeCleanup([] { at::cuda::clearCublasWorkspaces(); });
  auto graph = std::make_unique<Graph>();
  OpenCapture capture(*graph, device, pool);
  enqueue();
  capture.End();
  return graph;
}

}  // namespace stoker
