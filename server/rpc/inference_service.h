// The gRPC service of proto/open_inference.proto. Every call but inference is
// answered at once on gRPC's thread; inference goes through InferCall.
//
// Thread-safe. Callback API: no thread of gRPC's ever waits here.
#pragma once

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "open_inference.grpc.pb.h"
#include "rpc/infer_call.h"

namespace stoker {

class StreamInfer;

// Base with the callback form of each method on top.
template <class Base, template <class> class... Methods>
struct WithMethods {
  using Type = Base;
};
template <class Base, template <class> class First,
          template <class> class... Rest>
struct WithMethods<Base, First, Rest...> {
  using Type = typename WithMethods<First<Base>, Rest...>::Type;
};

using OpenInference = inference::GRPCInferenceService;

// Both inference methods take and give bytes: the request is parsed with a
// bound and shared with its tensors, the answer is sent from where its tensors
// lie.
using InferenceServiceBase =
    WithMethods<OpenInference::Service,
                OpenInference::WithRawCallbackMethod_ModelInfer,
                OpenInference::WithRawCallbackMethod_ModelStreamInfer,
                OpenInference::WithCallbackMethod_ServerLive,
                OpenInference::WithCallbackMethod_ServerReady,
                OpenInference::WithCallbackMethod_ModelReady,
                OpenInference::WithCallbackMethod_ServerMetadata,
                OpenInference::WithCallbackMethod_ModelMetadata,
                OpenInference::WithCallbackMethod_ModelConfig,
                OpenInference::WithCallbackMethod_ModelStatistics,
                OpenInference::WithCallbackMethod_RepositoryIndex,
                OpenInference::WithCallbackMethod_RepositoryModelLoad,
                OpenInference::WithCallbackMethod_RepositoryModelUnload,
                OpenInference::WithCallbackMethod_SystemSharedMemoryStatus,
                OpenInference::WithCallbackMethod_SystemSharedMemoryRegister,
                OpenInference::WithCallbackMethod_SystemSharedMemoryUnregister,
                OpenInference::WithCallbackMethod_CudaSharedMemoryStatus,
                OpenInference::WithCallbackMethod_CudaSharedMemoryRegister,
                OpenInference::WithCallbackMethod_CudaSharedMemoryUnregister,
                OpenInference::WithCallbackMethod_TraceSetting,
                OpenInference::WithCallbackMethod_LogSettings>::Type;

class InferenceService final : public InferenceServiceBase {
 public:
  InferenceService(std::string name, std::string version,
                   const InferCall::Services& services);

  // Ends streams, open ones and new ones, once their running requests are
  // answered: a stream that idles would hold up the server's stop.
  void EndStreams() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* ModelInfer(Context* context, const grpc::ByteBuffer* request,
                      grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ModelStreamInfer(
      Context* context) override;

  Reactor* ServerLive(Context* context,
                      const inference::ServerLiveRequest* request,
                      inference::ServerLiveResponse* response) override;
  Reactor* ServerReady(Context* context,
                       const inference::ServerReadyRequest* request,
                       inference::ServerReadyResponse* response) override;
  Reactor* ModelReady(Context* context,
                      const inference::ModelReadyRequest* request,
                      inference::ModelReadyResponse* response) override;
  Reactor* ServerMetadata(Context* context,
                          const inference::ServerMetadataRequest* request,
                          inference::ServerMetadataResponse* response) override;
  Reactor* ModelMetadata(Context* context,
                         const inference::ModelMetadataRequest* request,
                         inference::ModelMetadataResponse* response) override;
  Reactor* ModelConfig(Context* context,
                       const inference::ModelConfigRequest* request,
                       inference::ModelConfigResponse* response) override;
  Reactor* ModelStatistics(
      Context* context, const inference::ModelStatisticsRequest* request,
      inference::ModelStatisticsResponse* response) override;
  Reactor* RepositoryIndex(
      Context* context, const inference::RepositoryIndexRequest* request,
      inference::RepositoryIndexResponse* response) override;
  Reactor* RepositoryModelLoad(
      Context* context, const inference::RepositoryModelLoadRequest* request,
      inference::RepositoryModelLoadResponse* response) override;
  Reactor* RepositoryModelUnload(
      Context* context, const inference::RepositoryModelUnloadRequest* request,
      inference::RepositoryModelUnloadResponse* response) override;
  Reactor* SystemSharedMemoryStatus(
      Context* context,
      const inference::SystemSharedMemoryStatusRequest* request,
      inference::SystemSharedMemoryStatusResponse* response) override;
  Reactor* SystemSharedMemoryRegister(
      Context* context,
      const inference::SystemSharedMemoryRegisterRequest* request,
      inference::SystemSharedMemoryRegisterResponse* response) override;
  Reactor* SystemSharedMemoryUnregister(
      Context* context,
      const inference::SystemSharedMemoryUnregisterRequest* request,
      inference::SystemSharedMemoryUnregisterResponse* response) override;
  Reactor* CudaSharedMemoryStatus(
      Context* context, const inference::CudaSharedMemoryStatusRequest* request,
      inference::CudaSharedMemoryStatusResponse* response) override;
  Reactor* CudaSharedMemoryRegister(
      Context* context,
      const inference::CudaSharedMemoryRegisterRequest* request,
      inference::CudaSharedMemoryRegisterResponse* response) override;
  Reactor* CudaSharedMemoryUnregister(
      Context* context,
      const inference::CudaSharedMemoryUnregisterRequest* request,
      inference::CudaSharedMemoryUnregisterResponse* response) override;
  Reactor* TraceSetting(Context* context,
                        const inference::TraceSettingRequest* request,
                        inference::TraceSettingResponse* response) override;
  Reactor* LogSettings(Context* context,
                       const inference::LogSettingsRequest* request,
                       inference::LogSettingsResponse* response) override;

  void RemoveStream(const StreamInfer* stream) ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<ModelHandle> Acquire(const std::string& model,
                                      const std::string& version) const;
  absl::Status FillStatistics(
      const inference::ModelStatisticsRequest& request,
      inference::ModelStatisticsResponse* response) const;

  const std::string name_;
  const std::string version_;
  const InferCall::Services services_;
  absl::Mutex mu_;
  absl::flat_hash_map<const StreamInfer*, std::shared_ptr<StreamInfer>> streams_
      ABSL_GUARDED_BY(mu_);
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace stoker
