#include "runner/cuda/cuda_gpus.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <torch/version.h>

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <typeinfo>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "metrics/catalog.h"
#include "runner/cuda/gpu.h"
#include "runner/cuda/gpu_loader.h"
#include "runner/gpu_monitor.h"
#include "runner/gpus.h"

namespace stoker {
namespace {

// As nvidia-smi writes it; CUDA has it in the driver's interface only.
std::string UuidOf(int index, const std::string& name) {
  void* symbol = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  constexpr unsigned kSince = 11040;  // when it began to tell MIG slices apart
  cudaGetDriverEntryPointByVersion("cuDeviceGetUuid", &symbol, kSince,
                                   cudaEnableDefault, &found);
  CUuuid uuid = {};
  if (symbol == nullptr || found != cudaDriverEntryPointSuccess ||
      reinterpret_cast<CUresult (*)(CUuuid*, CUdevice)>(symbol)(&uuid, index) !=
          CUDA_SUCCESS) {
    return "";
  }
  std::string text = absl::StrContains(name, " MIG ") ? "MIG-" : "GPU-";
  for (int i = 0; i < 16; ++i) {
    const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
    absl::StrAppendFormat(&text, "%s%02x", dash ? "-" : "",
                          static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

GpuFacts FactsOf(int index, const std::string& driver) {
  GpuFacts facts;
  cudaDeviceProp properties = {};
  facts.index = index;
  if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) return facts;
  facts.name = properties.name;
  facts.uuid = UuidOf(index, facts.name);
  facts.total_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  facts.target = {
      .arch = absl::StrCat("sm_", properties.major, properties.minor),
      .sms = properties.multiProcessorCount,
      .memory_gib = static_cast<int>(std::lround(
          static_cast<double>(properties.totalGlobalMem) / double{1 << 30})),
      .driver = driver};
  return facts;
}

class CudaGpus : public Gpus {
 public:
  CudaGpus(const GpuOptions& options, std::unique_ptr<GpuMonitor> monitor,
           std::vector<GpuFacts> facts)
      : options_(options),
        monitor_(std::move(monitor)),
        facts_(std::move(facts)) {}

  const std::vector<GpuFacts>& facts() const override { return facts_; }

  int64_t FreeBytes(int index) override {
    if (const std::optional<int64_t> told = FreeOfIdle(index)) return *told;
    const auto loader = Loader(index);
    return loader.ok() ? static_cast<GpuLoader*>(*loader)->gpu().FreeBytes()
                       : 0;
  }

  absl::StatusOr<ExecutableLoader*> Loader(int index) override {
    const absl::MutexLock lock(&mu_);
    if (!loaders_.contains(index)) {
      const cudaError_t set = cudaSetDevice(index);
      const cudaError_t started = set == cudaSuccess ? cudaFree(nullptr) : set;
      if (started != cudaSuccess) {
        return absl::UnavailableError(absl::StrCat(
            "cuda:", index, " can't be used: ", cudaGetErrorString(started)));
      }
      loaders_[index] =
          std::make_unique<GpuLoader>(facts_.at(static_cast<size_t>(index)),
                                      options_, capture_lock_, open_mutex_);
    }
    return loaders_[index].get();
  }

  void UpdateMetrics() override {
    if (options_.metrics == nullptr) return;
    for (const GpuFacts& gpu : facts_) {
      const Labels labels = {{"device", absl::StrCat("cuda:", gpu.index)}};
      {
        const absl::MutexLock lock(&mu_);
        const auto loader = loaders_.find(gpu.index);
        if (loader == loaders_.end()) continue;
        options_.metrics->Gauge(metric::kGpuFreeMemory, labels)
            .Set(static_cast<double>(loader->second->gpu().FreeBytes()));
      }
      if (monitor_ == nullptr) continue;
      const GpuMonitor::Reading reading = monitor_->Read(gpu.uuid);
      if (reading.busy) {
        options_.metrics->Gauge(metric::kGpuBusy, labels).Set(*reading.busy);
      }
      if (reading.watts) {
        options_.metrics->Gauge(metric::kGpuPower, labels).Set(*reading.watts);
      }
    }
  }

 private:
  // Of one that wasn't started, which would take some hundred megabytes of it;
  // where NVML knows.
  std::optional<int64_t> FreeOfIdle(int index) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::MutexLock lock(&mu_);
    if (monitor_ == nullptr || loaders_.contains(index)) return std::nullopt;
    return monitor_->Read(facts_.at(static_cast<size_t>(index)).uuid)
        .free_bytes;
  }

  const GpuOptions options_;
  const std::unique_ptr<GpuMonitor> monitor_;
  const std::vector<GpuFacts> facts_;
  absl::Mutex capture_lock_;
  absl::Mutex open_mutex_;
  absl::Mutex mu_;
  std::map<int, std::unique_ptr<GpuLoader>> loaders_ ABSL_GUARDED_BY(mu_);
};

absl::Status NoGpu(absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("no GPU can be used: ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gpus>> OpenCudaGpus(const GpuOptions& options) {
  // torch keeps the answer to its first question for CUDA.
  if (typeid(at::detail::getCUDAHooks()) == typeid(at::CUDAHooksInterface)) {
    return NoGpu(
        "a model on the CPU has asked torch for one before this library was "
        "there; --default-device, or --cuda-library, has it opened first");
  }
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted == cudaErrorInsufficientDriver) {
    return NoGpu(
        "this host has no NVIDIA driver, or one before 580, which CUDA 13 "
        "needs; data-centre GPUs can do with cuda-compat-13-0 instead");
  }
  if (counted != cudaSuccess) return NoGpu(cudaGetErrorString(counted));
  if (count == 0) {
    return NoGpu("the driver shows none; CUDA_VISIBLE_DEVICES may hide them");
  }
  try {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    // TF32 is torch's default for convolutions and recurrent nets, and no
    // thread can decline it for itself, as it can for cuBLAS.
    at::globalContext().setAllowTF32CuDNN(false);
    Gpu::WatchForOutOfMemory();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return NoGpu(text.substr(0, text.find('\n')));
  }
  std::unique_ptr<GpuMonitor> monitor = GpuMonitor::Open();
  const std::string driver = DriverBranch(monitor.get());
  std::vector<GpuFacts> facts;
  for (int i = 0; i < count; ++i) facts.push_back(FactsOf(i, driver));
  return std::make_unique<CudaGpus>(options, std::move(monitor),
                                    std::move(facts));
}

}  // namespace stoker
