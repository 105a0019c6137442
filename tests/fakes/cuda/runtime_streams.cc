// CUDA's runtime over the GPU that isn't there (device.h): streams, events and
// graphs, and what nothing here asks for.
#include <cuda_runtime_api.h>

#include "tests/fakes/cuda/device.h"

namespace {

using fake_cuda::Device;

Device& The() { return Device::The(); }

cudaError_t Ended(fake_cuda::Error error) {
  return static_cast<cudaError_t>(The().Ended(error));
}

fake_cuda::Stream* Of(cudaStream_t stream) {
  return reinterpret_cast<fake_cuda::Stream*>(stream);
}
fake_cuda::Event* Of(cudaEvent_t event) {
  return reinterpret_cast<fake_cuda::Event*>(event);
}
fake_cuda::Graph* Of(cudaGraph_t graph) {
  return reinterpret_cast<fake_cuda::Graph*>(graph);
}
fake_cuda::Graph* Of(cudaGraphExec_t graph) {
  return reinterpret_cast<fake_cuda::Graph*>(graph);
}

cudaError_t Unsupported() { return Ended(cudaErrorNotSupported); }

}  // namespace

extern "C" {

// Streams

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  if (const auto error = The().Begin("cudaStreamCreate", true)) {
    return Ended(error);
  }
  *stream = reinterpret_cast<cudaStream_t>(The().CreateStream());
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  The().Begin("cudaStreamDestroy");
  return Ended(The().DestroyStream(Of(stream)));
}
cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {
  *priority = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const auto error = The().Begin("cudaStreamQuery")) return Ended(error);
  return Ended(The().Query(Of(stream)));
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const auto error = The().Begin("cudaStreamSynchronize")) {
    return Ended(error);
  }
  return Ended(The().Synchronize(Of(stream)));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned) {
  if (const auto error = The().Begin("cudaStreamWaitEvent")) {
    return Ended(error);
  }
  return Ended(The().Await(Of(event), Of(stream)));
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream,
                                  cudaStreamCallback_t callback, void* data,
                                  unsigned) {
  return Ended(
      The().Call([=] { callback(stream, cudaSuccess, data); }, Of(stream)));
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                               void* data) {
  return Ended(The().Call([=] { function(data); }, Of(stream)));
}

// Events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (const auto error = The().Begin("cudaEventCreate", true)) {
    return Ended(error);
  }
  *event = reinterpret_cast<cudaEvent_t>(The().CreateEvent());
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  The().Begin("cudaEventDestroy");
  return Ended(The().DestroyEvent(Of(event)));
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                     unsigned) {
  if (const auto error = The().Begin("cudaEventRecord", true)) {
    return Ended(error);
  }
  return Ended(The().Record(Of(event), Of(stream)));
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const auto error = The().BeginUnsafe("cudaEventQuery")) {
    return Ended(error);
  }
  return Ended(The().QueryEvent(Of(event)));
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto error = The().Begin("cudaEventSynchronize")) {
    return Ended(error);
  }
  return Ended(The().SynchronizeEvent(Of(event)));
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from,
                                 cudaEvent_t to) {
  if (const auto error = The().Begin("cudaEventElapsedTime")) {
    return Ended(error);
  }
  if (Of(from)->stream == nullptr || Of(to)->stream == nullptr) {
    return Ended(cudaErrorInvalidResourceHandle);
  }
  *milliseconds =
      static_cast<float>((Of(to)->seconds - Of(from)->seconds) * 1e3);
  return cudaSuccess;
}

// Graphs

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  *mode = static_cast<cudaStreamCaptureMode>(
      Device::ExchangeMode(static_cast<fake_cuda::CaptureMode>(*mode)));
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   cudaStreamCaptureMode mode) {
  if (const auto error = The().Begin("cudaStreamBeginCapture", true)) {
    return Ended(error);
  }
  return Ended(The().BeginCapture(Of(stream),
                                  static_cast<fake_cuda::CaptureMode>(mode)));
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  fake_cuda::Graph* captured = nullptr;
  const auto scripted = The().Begin("cudaStreamEndCapture", true);
  const auto error = The().EndCapture(Of(stream), &captured);
  *graph = reinterpret_cast<cudaGraph_t>(captured);
  if (scripted == 0) return Ended(error);
  if (captured != nullptr) The().DestroyGraph(captured);
  *graph = nullptr;
  return Ended(scripted);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  cudaStreamCaptureStatus* status) {
  uint64_t id = 0;
  const int open = The().CaptureOf(Of(stream), &id);
  *status = open == 1   ? cudaStreamCaptureStatusActive
            : open == 2 ? cudaStreamCaptureStatusInvalidated
                        : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes,
                                     const cudaGraphEdgeData** edges,
                                     size_t* count) {
  uint64_t found = 0;
  const int open = The().CaptureOf(Of(stream), &found);
  cudaStreamIsCapturing(stream, status);
  if (open != 0 && id != nullptr) *id = found;
  if (graph != nullptr) *graph = nullptr;
  if (nodes != nullptr) *nodes = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable,
                                          cudaGraph_t graph,
                                          unsigned long long) {
  if (const auto error = The().Begin("cudaGraphInstantiate", true)) {
    return Ended(error);
  }
  *executable = reinterpret_cast<cudaGraphExec_t>(The().Instantiate(Of(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (const auto error = The().Begin("cudaGraphLaunch", true)) {
    return Ended(error);
  }
  return Ended(The().LaunchGraph(Of(graph), Of(stream)));
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  The().Begin("cudaGraphDestroy");
  return Ended(The().DestroyGraph(Of(graph)));
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  The().Begin("cudaGraphExecDestroy");
  return Ended(The().DestroyGraph(Of(graph)));
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*,
                              size_t* count) {
  *count = Of(graph)->work.size();
  return cudaSuccess;
}

// Not asked for.

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t, const char*, unsigned) {
  return Unsupported();
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t*,
                                         cudaGraphEdgeData*, size_t*) {
  return Unsupported();
}
cudaError_t cudaIpcCloseMemHandle(void*) { return Unsupported(); }
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) {
  return Unsupported();
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) {
  return Unsupported();
}
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) {
  return Unsupported();
}
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
  return Unsupported();
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t*, int) {
  return Unsupported();
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return Unsupported();
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*,
                                 size_t) {
  return Unsupported();
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return Unsupported();
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return Unsupported(); }

}  // extern "C"
