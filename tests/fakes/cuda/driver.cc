// CUDA's driver over the GPU that isn't there (device.h), as far as compiled
// artifacts, torch and libstoker_cuda.so ask for it.
#include <cuda.h>

#include <cstring>

#include "tests/fakes/cuda/device.h"

namespace {

using fake_cuda::Device;
using fake_cuda::Place;

Device& The() { return Device::The(); }

CUresult Result(fake_cuda::Error error) { return static_cast<CUresult>(error); }

CUcontext TheContext() {
  static char context;
  return reinterpret_cast<CUcontext>(&context);
}

CUresult Loaded(CUmodule* module) {
  if (const auto error = The().BeginUnsafe("cuModuleLoad", true)) {
    return Result(error);
  }
  *module = static_cast<CUmodule>(The().LoadModule());
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "scripted";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char** text) {
  *text = "scripted";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                              CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
           : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT   ? 132
           : attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
               ? 232448
               : 0;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice) {
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<char>(i);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = TheContext();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = TheContext();
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute,
                               CUdeviceptr data) {
  const Place place = The().PlaceOf(reinterpret_cast<void*>(data));
  if (place == Place::kPageable) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER) {
    *static_cast<CUdeviceptr*>(value) = data;
  } else if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT) {
    *static_cast<CUcontext*>(value) = TheContext();
  } else {
    *static_cast<int*>(value) =
        attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE
            ? (place == Place::kDevice ? CU_MEMORYTYPE_DEVICE
                                       : CU_MEMORYTYPE_HOST)
            : 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuModuleLoad(CUmodule* module, const char*) { return Loaded(module); }
CUresult cuModuleLoadData(CUmodule* module, const void*) {
  return Loaded(module);
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void*, unsigned,
                            CUjit_option*, void**) {
  return Loaded(module);
}
CUresult cuModuleUnload(CUmodule module) {
  return Result(The().UnloadModule(module));
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module,
                             const char*) {
  *function = reinterpret_cast<CUfunction>(module);
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) {
  *value = 0;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return CUDA_SUCCESS;
}
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction,
                                                     int, size_t) {
  *blocks = 2;
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned,
                        unsigned, unsigned, unsigned, CUstream stream, void**,
                        void**) {
  if (const auto error = The().Begin("cuLaunchKernel", true)) {
    return Result(error);
  }
  return Result(The().Launch(reinterpret_cast<fake_cuda::Stream*>(stream)));
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction, void**,
                          void**) {
  return cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, config->hStream, nullptr,
                        nullptr);
}
CUresult cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned,
                                   unsigned, unsigned, unsigned, unsigned,
                                   CUstream stream, void**) {
  return cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
}

// Not asked for: code is compiled when it is built, and nothing is linked here.

CUresult cuLinkCreate_v2(unsigned, CUjit_option*, void**, CUlinkState*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuLinkAddData_v2(CUlinkState, CUjitInputType, void*, size_t,
                          const char*, unsigned, CUjit_option*, void**) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuLinkComplete(CUlinkState, void**, size_t*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t,
                                void*, const cuuint64_t*, const cuuint64_t*,
                                const cuuint32_t*, const cuuint32_t*,
                                CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"
