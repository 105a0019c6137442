#include "runner/cuda/gpu_context.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "runner/torch_values.h"

namespace stoker {
namespace {

// The driver takes small inputs from ordinary memory with the command itself.
constexpr size_t kStagedFrom = size_t{64} << 10;

}  // namespace

at::Tensor PinnedBytes(size_t bytes) {
  return at::empty({static_cast<int64_t>(bytes)},
                   at::TensorOptions().dtype(at::kByte).pinned_memory(true));
}

GpuContext::GpuContext(Gpu& gpu, int threads)
    : ExecutionContext(threads), gpu_(gpu), watch_(gpu.watch().Add()) {
  UseThreads(threads);
  const absl::ReaderMutexLock lock(&gpu_.capture_lock());
  try {
    C10_CUDA_CHECK(cudaSetDevice(gpu_.facts().index));
    stream_ = NewStream();
    graph_stream_ = NewStream();
    for (cudaEvent_t& mark : marks_) {
      C10_CUDA_CHECK(cudaEventCreateWithFlags(&mark, cudaEventBlockingSync));
    }
  } catch (...) {
    created_ = gpu_.ErrorNow("starting a device thread");
  }
}

GpuContext::~GpuContext() {
  const absl::ReaderMutexLock lock(&gpu_.capture_lock());
  DropStream(stream_);
  DropStream(graph_stream_);
  for (const cudaEvent_t mark : marks_) {
    if (mark != nullptr) cudaEventDestroy(mark);
  }
}

// Of its own: torch's streams come from a pool of 32 that others share.
GpuContext::OwnStream GpuContext::NewStream() {
  cudaStream_t raw = nullptr;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
  return std::make_unique<c10::cuda::CUDAStream>(
      c10::cuda::getStreamFromExternal(raw, gpu_.device().index()));
}

void GpuContext::DropStream(OwnStream& stream) {
  if (stream == nullptr) return;
  DropWorkspaces(stream->stream());
  cudaStreamDestroy(stream->stream());
  stream.reset();
}

void GpuContext::RenewGraphStream() {
  graph_stream_spent_ = true;
  // Made first: where that throws, there is one still, to replay on.
  OwnStream renewed = NewStream();
  DropStream(graph_stream_);
  graph_stream_ = std::move(renewed);
  graph_stream_spent_ = false;
}

absl::Status GpuContext::ReadyToCapture() {
  RETURN_IF_ERROR(created_);
  if (!graph_stream_spent_) return absl::OkStatus();
  try {
    const absl::ReaderMutexLock lock(&gpu_.capture_lock());
    RenewGraphStream();
    return absl::OkStatus();
  } catch (...) {
    return gpu_.ErrorNow("a stream to capture on");
  }
}

GraphPool GpuContext::graph_pool() {
  GraphPool pool = graph_pool_.lock();
  if (pool == nullptr) {
    pool = NewGraphPool();
    graph_pool_ = pool;
  }
  return pool;
}

Buffer GpuContext::NewBuffer(size_t bytes) {
  if (!created_.ok() || !gpu_.health().Check().ok()) return Buffer(bytes);
  try {
    const absl::ReaderMutexLock lock(&gpu_.capture_lock());
    auto memory =
        std::make_shared<at::Tensor>(PinnedBytes(std::max<size_t>(bytes, 1)));
    auto* data = reinterpret_cast<std::byte*>(memory->mutable_data_ptr());
    std::erase_if(pinned_, [data](auto& known) { return known.first == data; });
    pinned_.emplace_back(data, bytes);
    return {std::shared_ptr<std::byte>(memory, data), bytes};
  } catch (...) {
    // Ordinary memory is slower and as good.
    return Buffer(bytes);
  }
}

void GpuContext::CopyToDevice(const Tensor& input, void* device) {
  if (input.byte_size == 0) return;
  const bool is_pinned =
      std::any_of(pinned_.begin(), pinned_.end(), [&](const auto& known) {
        return input.data >= known.first &&
               input.data < known.first + known.second;
      });
  const void* from = input.data;
  if (!is_pinned && input.byte_size >= kStagedFrom) {
    staged_.push_back(PinnedBytes(input.byte_size));
    std::memcpy(staged_.back().mutable_data_ptr(), input.data, input.byte_size);
    from = staged_.back().const_data_ptr();
  }
  C10_CUDA_CHECK(cudaMemcpyAsync(device, from, input.byte_size,
                                 cudaMemcpyHostToDevice,
                                 c10::cuda::getCurrentCUDAStream()));
}

std::vector<at::Tensor> GpuContext::Upload(absl::Span<const Tensor> inputs) {
  std::vector<at::Tensor> tensors;
  for (const Tensor& input : inputs) {
    const auto view = ViewAsTorch(input);
    // Its sizes and type are checked there.
    TORCH_CHECK(view.ok(), std::string(view.status().message()));
    tensors.push_back(
        at::empty(view->sizes(), view->options().device(gpu_.device())));
  }
  UploadInto(inputs, tensors);
  return tensors;
}

void GpuContext::UploadInto(absl::Span<const Tensor> inputs,
                            absl::Span<const at::Tensor> into) {
  int64_t bytes = 0;
  Mark(kBegun);
  for (size_t i = 0; i < inputs.size(); ++i) {
    CopyToDevice(inputs[i], into[i].mutable_data_ptr());
    bytes += static_cast<int64_t>(inputs[i].byte_size);
  }
  Mark(kUploaded);
  uploaded_ = true;
  gpu_.CountCopied(Gpu::Direction::kToDevice, bytes);
}

void GpuContext::Mark(Moment moment) {
  C10_CUDA_CHECK(
      cudaEventRecord(marks_[moment], c10::cuda::getCurrentCUDAStream()));
}

void GpuContext::CountCopyTimes() {
  const auto count = [&](Gpu::Direction direction, Moment from, Moment to) {
    float milliseconds = 0;
    if (cudaEventElapsedTime(&milliseconds, marks_[from], marks_[to]) ==
        cudaSuccess) {
      gpu_.CountCopyTime(direction, absl::Milliseconds(milliseconds));
    } else {
      cudaGetLastError();  // or somebody else would be told
    }
  };
  if (uploaded_) count(Gpu::Direction::kToDevice, kBegun, kUploaded);
  count(Gpu::Direction::kToHost, kComputed, kOver);
}

absl::Status GpuContext::Await(const c10::cuda::CUDAStream& stream,
                               absl::string_view what) {
  const cudaError_t recorded = cudaEventRecord(marks_[kOver], stream.stream());
  // What was enqueued reads memory of the host, whatever became of the event.
  const cudaError_t over = recorded == cudaSuccess
                               ? cudaEventSynchronize(marks_[kOver])
                               : cudaStreamSynchronize(stream.stream());
  const cudaError_t error = recorded == cudaSuccess ? over : recorded;
  return error == cudaSuccess ? absl::OkStatus() : gpu_.ErrorOf(error, what);
}

absl::StatusOr<std::vector<at::Tensor>> GpuContext::Run(
    const c10::cuda::CUDAStream& stream, absl::string_view what, bool eager,
    absl::FunctionRef<absl::StatusOr<std::vector<at::Tensor>>()> body) {
  RETURN_IF_ERROR(gpu_.health().Check());
  RETURN_IF_ERROR(created_);
  const c10::InferenceMode mode;
  const c10::cuda::CUDAStreamGuard guard(stream);
  std::vector<at::Tensor> answers;
  absl::Status status;
  uploaded_ = false;
  Gpu::BeginRun();
  const auto begun = std::chrono::steady_clock::now();
  watch_->Begin();
  try {
    const absl::ReaderMutexLock lock(&gpu_.capture_lock());
    auto values = body();
    status = values.status();
    Mark(kComputed);
    int64_t bytes = 0;
    for (size_t i = 0; status.ok() && i < values->size(); ++i) {
      // Kept on the device until the stream has copied it: memory that is let
      // go is given to later work of the same stream only.
      const at::Tensor value =
          (*values)[i].resolve_conj().resolve_neg().contiguous();
      at::Tensor host = at::empty(
          value.sizes(), value.options().device(at::kCPU).pinned_memory(true));
      if (value.nbytes() > 0) {
        C10_CUDA_CHECK(cudaMemcpyAsync(
            host.mutable_data_ptr(), value.const_data_ptr(), value.nbytes(),
            value.is_cuda() ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost,
            stream.stream()));
      }
      bytes += static_cast<int64_t>(value.nbytes());
      answers.push_back(std::move(host));
    }
    gpu_.CountCopied(Gpu::Direction::kToHost, bytes);
  } catch (...) {
    status = gpu_.ErrorNow(what, eager);
  }
  last_enqueue_ = std::chrono::steady_clock::now() - begun;
  // Also after an error: what was enqueued reads the caller's memory.
  const absl::Status over = Await(stream, what);
  watch_->End();
  staged_.clear();
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(over);
  CountCopyTimes();
  return answers;
}

}  // namespace stoker
