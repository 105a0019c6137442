// A device thread's half of a GPU: its streams, its pinned staging memory, the
// pool that its graphs share. Private to libstoker_cuda.so.
//
// One batch at a time: inputs are copied to the device, the run is enqueued,
// its answers are copied back, and the thread sleeps until the last of that is
// over. What overlaps is another instance's batch, on streams of its own.
//
// Used on its own thread only.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runner/cuda/gpu.h"
#include "runner/cuda/graph_recording.h"
#include "runner/execution_context.h"

namespace stoker {

class GpuContext : public ExecutionContext {
 public:
  // On the device thread. A GPU that fails here makes every run fail.
  GpuContext(Gpu& gpu, int threads);
  ~GpuContext() override;

  // Pinned, so that the device copies from where the batch was put together.
  Buffer NewBuffer(size_t bytes) override;

  Gpu& gpu() { return gpu_; }
  const c10::cuda::CUDAStream& stream() const { return *stream_; }
  // Where graphs are captured and replayed, and nothing else runs that keeps
  // memory for its stream (cuBLAS' workspaces).
  const c10::cuda::CUDAStream& graph_stream() const { return *graph_stream_; }
  // In place of one whose capture failed. Where that throws, the old one is
  // still there, for replays only.
  void RenewGraphStream();
  // Before each capture: an error where there is no stream for it.
  absl::Status ReadyToCapture();
  // Of all graphs of this thread: their replays never overlap, and answers are
  // copied out before the next. Under the capture lock, exclusively.
  GraphPool graph_pool();

  // Enqueues copies of `inputs` to new tensors on the device, or to `into`.
  // Under the capture lock, with `stream` current.
  std::vector<at::Tensor> Upload(absl::Span<const Tensor> inputs);
  void UploadInto(absl::Span<const Tensor> inputs,
                  absl::Span<const at::Tensor> into);

  // A run: `body` gets a stream that is current, enqueues on it, and gives back
  // what is to be copied to the host. Returns that, when all of it is over, as
  // pinned tensors. `eager`: as in Gpu::ErrorNow.
  absl::StatusOr<std::vector<at::Tensor>> Run(
      const c10::cuda::CUDAStream& stream, absl::string_view what, bool eager,
      absl::FunctionRef<absl::StatusOr<std::vector<at::Tensor>>()> body);

  // Of the last run: how long this thread was busy before it could sleep.
  std::chrono::nanoseconds last_enqueue() const { return last_enqueue_; }

 private:
  using OwnStream = std::unique_ptr<c10::cuda::CUDAStream>;
  OwnStream NewStream();
  void DropStream(OwnStream& stream);
  void CopyToDevice(const Tensor& input, void* device);
  absl::Status Await(const c10::cuda::CUDAStream& stream,
                     absl::string_view what);
  // Of a run that is over.
  void CountCopyTimes();

  Gpu& gpu_;
  const std::shared_ptr<RunWatch::Entry> watch_;
  absl::Status created_;
  OwnStream stream_;
  OwnStream graph_stream_;
  bool graph_stream_spent_ = false;  // a capture failed on it
  // On the stream of a run: before and after its inputs are copied, before and
  // after its answers are.
  enum Moment { kBegun, kUploaded, kComputed, kOver, kMoments };
  void Mark(Moment moment);
  cudaEvent_t marks_[kMoments] = {};
  bool uploaded_ = false;  // by the current run
  std::weak_ptr<const c10::MempoolId_t> graph_pool_;
  // What NewBuffer gave, to know it again: begin and size.
  std::vector<std::pair<const std::byte*, size_t>> pinned_;
  // Copies of inputs that somebody else had in ordinary memory, kept until the
  // run that reads them is over.
  std::vector<at::Tensor> staged_;
  std::chrono::nanoseconds last_enqueue_{0};
};

// Host memory that the device copies from and to by itself.
at::Tensor PinnedBytes(size_t bytes);

}  // namespace stoker
