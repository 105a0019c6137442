// CUDA's runtime over the GPU that isn't there (device.h): devices, memory,
// errors and kernels. As far as torch's CUDA half and libstoker_cuda.so ask for
// it; the rest is runtime_streams.cc.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstring>
#include <functional>
#include <string>
#include <tuple>

#include "tests/fakes/cuda/device.h"

namespace {

using fake_cuda::Device;
using fake_cuda::Place;

Device& The() { return Device::The(); }

cudaError_t Ended(fake_cuda::Error error) {
  return static_cast<cudaError_t>(The().Ended(error));
}

fake_cuda::Stream* Of(cudaStream_t stream) {
  return reinterpret_cast<fake_cuda::Stream*>(stream);
}

// A call that does nothing else.
cudaError_t Nothing(const char* call) { return Ended(The().Begin(call)); }

cudaError_t Launched(cudaStream_t stream) {
  if (const auto error = The().Begin("cudaLaunchKernel", true)) {
    return Ended(error);
  }
  return Ended(The().Launch(Of(stream)));
}

thread_local std::tuple<dim3, dim3, size_t, cudaStream_t> configuration;

}  // namespace

extern "C" {

// Devices

cudaError_t cudaGetDeviceCount(int* count) {
  const cudaError_t error = Nothing("cudaGetDeviceCount");
  *count = error == cudaSuccess ? 1 : 0;
  return error;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device != 0) return Ended(cudaErrorInvalidDevice);
  return Nothing("cudaSetDevice");
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  if (device != 0) return Ended(cudaErrorInvalidDevice);
  *prop = {};
  std::strcpy(prop->name, "NVIDIA H100 80GB HBM3");
  prop->totalGlobalMem = fake_cuda::kTotalBytes;
  prop->major = 9;
  prop->multiProcessorCount = 132;
  prop->sharedMemPerBlock = 49152;
  prop->sharedMemPerBlockOptin = 232448;
  prop->sharedMemPerMultiprocessor = 233472;
  prop->regsPerBlock = prop->regsPerMultiprocessor = 65536;
  prop->warpSize = 32;
  prop->maxThreadsPerBlock = 1024;
  prop->maxThreadsPerMultiProcessor = 2048;
  prop->maxBlocksPerMultiProcessor = 32;
  prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = 1024;
  prop->maxThreadsDim[2] = 64;
  prop->maxGridSize[0] = 2147483647;
  prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
  prop->totalConstMem = 65536;
  prop->textureAlignment = 512;
  prop->memPitch = 2147483647;
  prop->l2CacheSize = 52428800;
  prop->unifiedAddressing = 1;
  prop->concurrentKernels = 1;
  prop->cooperativeLaunch = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int) {
  cudaDeviceProp prop;
  cudaGetDeviceProperties(&prop, 0);
  switch (attr) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = prop.major;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = prop.multiProcessorCount;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = prop.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(prop.sharedMemPerBlock);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(prop.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxGridDimX:
      *value = prop.maxGridSize[0];
      break;
    case cudaDevAttrWarpSize:
      *value = prop.warpSize;
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int) {
  std::strncpy(id, "0000:01:00.0", static_cast<size_t>(length));
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return Ended(cudaErrorNotSupported);
}
cudaError_t cudaDeviceSynchronize() {
  if (const auto error = The().BeginUnsafe("cudaDeviceSynchronize")) {
    return Ended(error);
  }
  return Ended(The().SynchronizeAll());
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** function, unsigned, unsigned long long,
    cudaDriverEntryPointQueryResult* result) {
  const std::string name = symbol;
  *function = dlsym(RTLD_DEFAULT, (name + "_v2").c_str());
  if (*function == nullptr) *function = dlsym(RTLD_DEFAULT, symbol);
  if (result != nullptr) {
    *result = *function != nullptr ? cudaDriverEntryPointSuccess
                                   : cudaDriverEntryPointSymbolNotFound;
  }
  return *function != nullptr ? cudaSuccess : Ended(cudaErrorSymbolNotFound);
}
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

// Errors

cudaError_t cudaGetLastError() {
  return static_cast<cudaError_t>(The().LastError(true));
}
cudaError_t cudaPeekAtLastError() {
  return static_cast<cudaError_t>(The().LastError(false));
}
const char* cudaGetErrorName(cudaError_t error) {
  thread_local std::string name;
  name = "cudaError " + std::to_string(error);
  return name.c_str();
}
const char* cudaGetErrorString(cudaError_t error) {
  thread_local std::string text;
  text = error == cudaErrorMemoryAllocation
             ? "out of memory"
             : "scripted error " + std::to_string(error);
  return text.c_str();
}

// Memory

cudaError_t cudaMalloc(void** data, size_t bytes) {
  if (const auto error = The().BeginUnsafe("cudaMalloc", true)) {
    return Ended(error);
  }
  return Ended(The().Allocate(Place::kDevice, data, bytes));
}
cudaError_t cudaFree(void* data) {
  if (const auto error = The().BeginUnsafe("cudaFree")) return Ended(error);
  return Ended(The().Free(Place::kDevice, data));
}
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  if (const auto error = The().BeginUnsafe("cudaHostAlloc", true)) {
    return Ended(error);
  }
  return Ended(The().Allocate(Place::kPinned, data, bytes));
}
cudaError_t cudaFreeHost(void* data) {
  if (const auto error = The().BeginUnsafe("cudaFreeHost")) return Ended(error);
  return Ended(The().Free(Place::kPinned, data));
}
cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned) {
  if (const auto error = The().Begin("cudaHostRegister", true)) {
    return Ended(error);
  }
  return Ended(The().Register(data, bytes));
}
cudaError_t cudaHostUnregister(void* data) {
  return Ended(The().Free(Place::kPinned, data));
}
cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t) {
  return cudaMalloc(data, bytes);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t) { return cudaFree(data); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (const auto error = The().Begin("cudaMemGetInfo")) return Ended(error);
  The().FreeAndTotal(free, total);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found,
                                     const void* data) {
  if (const auto error = The().Begin("cudaPointerGetAttributes")) {
    return Ended(error);
  }
  *found = {};
  const Place place = The().PlaceOf(data);
  found->type = place == Place::kDevice   ? cudaMemoryTypeDevice
                : place == Place::kPinned ? cudaMemoryTypeHost
                                          : cudaMemoryTypeUnregistered;
  if (place != Place::kPageable) {
    found->devicePointer = const_cast<void*>(data);
  }
  if (place != Place::kDevice) found->hostPointer = const_cast<void*>(data);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind, cudaStream_t stream) {
  if (const auto error = The().Begin("cudaMemcpyAsync", true)) {
    return Ended(error);
  }
  return Ended(The().Copy(to, from, bytes, Of(stream)));
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                       cudaMemcpyKind) {
  if (const auto error = The().BeginUnsafe("cudaMemcpy")) return Ended(error);
  if (const auto error = The().SynchronizeAll()) return Ended(error);
  if (const auto error = The().Copy(to, from, bytes, nullptr)) {
    return Ended(error);
  }
  return Ended(The().Synchronize(nullptr));
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int,
                                size_t bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                              size_t from_pitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  for (size_t row = 0; row < height; ++row) {
    const cudaError_t error = cudaMemcpyAsync(
        static_cast<char*>(to) + row * to_pitch,
        static_cast<const char*>(from) + row * from_pitch, width, kind, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  if (const auto error = The().BeginUnsafe("cudaMemset")) return Ended(error);
  if (const auto error = The().Set(to, value, bytes, nullptr)) {
    return Ended(error);
  }
  return Ended(The().Synchronize(nullptr));
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes,
                            cudaStream_t stream) {
  if (const auto error = The().Begin("cudaMemsetAsync", true)) {
    return Ended(error);
  }
  return Ended(The().Set(to, value, bytes, Of(stream)));
}

// Kernels: registered by torch's library when it is opened, launched, and never
// run.

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char*, char*, const char*, int,
                            uint3*, uint3*, dim3*, dim3*, int*) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int,
                       int) {}
char __cudaInitModule(void**) { return 1; }
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     CUstream_st* stream) {
  configuration = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared,
                                       void* stream) {
  std::tie(*grid, *block, *shared, *static_cast<cudaStream_t*>(stream)) =
      configuration;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t,
                               cudaStream_t stream) {
  return Launched(stream);
}
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t,
                             cudaStream_t stream) {
  return Launched(stream);
}
cudaError_t cudaLaunchCooperativeKernel(const void*, dim3, dim3, void**, size_t,
                                        cudaStream_t stream) {
  return Launched(stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void*,
                                void**) {
  return Launched(config->stream);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = attributes->ptxVersion = 90;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                          const void*, int,
                                                          size_t) {
  *blocks = 2;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                   const void*,
                                                                   int, size_t,
                                                                   unsigned) {
  *blocks = 2;
  return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void**, const void*) {
  return Ended(cudaErrorInvalidSymbol);
}
cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t,
                               cudaMemcpyKind) {
  return Ended(cudaErrorInvalidSymbol);
}

}  // extern "C"
