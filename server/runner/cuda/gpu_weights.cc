#include "runner/cuda/gpu_weights.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runner/cuda/gpu_context.h"
#include "runner/weight_layout.h"

namespace stoker {
namespace {

constexpr int64_t kStagingBytes = int64_t{16} << 20;

// A block of device memory outside of torch's allocator, accounted as weights.
class WeightBlock {
 public:
  WeightBlock(Gpu& gpu, GpuMemory::Claim claim, int64_t bytes)
      : gpu_(gpu), claim_(std::move(claim)) {
    const absl::ReaderMutexLock lock(&gpu_.capture_lock());
    C10_CUDA_CHECK(cudaMalloc(&data_, std::max<int64_t>(bytes, 1)));
    claim_->Taken();
  }
  ~WeightBlock() {
    const absl::ReaderMutexLock lock(&gpu_.capture_lock());
    const c10::cuda::CUDAGuard guard(gpu_.device());
    cudaFree(data_);
  }
  WeightBlock(const WeightBlock&) = delete;
  WeightBlock& operator=(const WeightBlock&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  Gpu& gpu_;
  const GpuMemory::Claim claim_;
  void* data_ = nullptr;
};

// Two pinned buffers: one is filled from the mapped file while the other is on
// its way.
class Uploader {
 public:
  explicit Uploader(Gpu& gpu) : gpu_(gpu) {
    const absl::ReaderMutexLock lock(&gpu_.capture_lock());
    try {
      C10_CUDA_CHECK(
          cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
      for (Half& half : halves_) {
        half.pinned = PinnedBytes(kStagingBytes);
        C10_CUDA_CHECK(cudaEventCreateWithFlags(
            &half.copied, cudaEventBlockingSync | cudaEventDisableTiming));
      }
    } catch (...) {
      Close();
      throw;
    }
  }
  ~Uploader() {
    const absl::ReaderMutexLock lock(&gpu_.capture_lock());
    Close();
  }
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  void Copy(const std::byte* host, int64_t bytes, std::byte* device) {
    while (bytes > 0) {
      const int64_t part = std::min(bytes, kStagingBytes);
      Half& half = halves_[next_];
      next_ = 1 - next_;
      C10_CUDA_CHECK(cudaEventSynchronize(half.copied));
      std::memcpy(half.pinned.mutable_data_ptr(), host,
                  static_cast<size_t>(part));
      const absl::ReaderMutexLock lock(&gpu_.capture_lock());
      C10_CUDA_CHECK(cudaMemcpyAsync(device, half.pinned.const_data_ptr(),
                                     static_cast<size_t>(part),
                                     cudaMemcpyHostToDevice, stream_));
      C10_CUDA_CHECK(cudaEventRecord(half.copied, stream_));
      host += part;
      device += part;
      bytes -= part;
    }
  }
  void Finish() { C10_CUDA_CHECK(cudaStreamSynchronize(stream_)); }

 private:
  struct Half {
    at::Tensor pinned;
    cudaEvent_t copied = nullptr;
  };
  // What there is of it.
  void Close() {
    if (stream_ == nullptr) return;
    // The pinned memory goes back to others: nothing may still be read from it.
    cudaStreamSynchronize(stream_);
    for (Half& half : halves_) {
      if (half.copied != nullptr) cudaEventDestroy(half.copied);
    }
    cudaStreamDestroy(stream_);
  }

  Gpu& gpu_;
  cudaStream_t stream_ = nullptr;
  Half halves_[2];
  int next_ = 0;
};

}  // namespace

absl::StatusOr<std::shared_ptr<WeightStore>> LoadWeights(
    Gpu& gpu, const ProgramArchive& archive, GpuUse use) {
  const std::string& path = archive.path();
  const WeightLayout layout = LayOutWeights(archive.tensors());
  ASSIGN_OR_RETURN(GpuMemory::Claim claim, gpu.Take(use, path, layout.bytes));
  std::shared_ptr<WeightBlock> block;
  try {
    const c10::InferenceMode mode;
    const c10::cuda::CUDAGuard guard(gpu.device());
    block = std::make_shared<WeightBlock>(gpu, std::move(claim), layout.bytes);
    Uploader uploader(gpu);
    for (const WeightLayout::Region& region : layout.regions) {
      uploader.Copy(region.host, region.bytes, block->data() + region.offset);
    }
    uploader.Finish();
  } catch (...) {
    return gpu.ErrorNow("copying weights to the GPU");
  }
  gpu.CountCopied(Gpu::Direction::kToDevice, layout.bytes);
  if (!archive.zip()->Unchanged()) {
    return absl::DataLossError(
        absl::StrCat(path, " was written to while it was read"));
  }
  return WeightStore::Place(
      archive, gpu.device(),
      [&](const std::string& name) {
        return block->data() + layout.offsets.at(name);
      },
      block,
      [&gpu, whose = absl::StrCat(path, " (rounded)")](
          int64_t bytes) -> absl::StatusOr<std::shared_ptr<std::byte>> {
        ASSIGN_OR_RETURN(GpuMemory::Claim room,
                         gpu.Take(GpuUse::kWeights, whose, bytes));
        try {
          const c10::cuda::CUDAGuard guard(gpu.device());
          const auto rounded =
              std::make_shared<WeightBlock>(gpu, std::move(room), bytes);
          return std::shared_ptr<std::byte>(rounded, rounded->data());
        } catch (...) {
          return gpu.ErrorNow("memory for rounded weights");
        }
      });
}

}  // namespace stoker
