#include "rpc/inference_service.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rpc/error_text.h"
#include "rpc/model_service.h"
#include "rpc/status_mapping.h"
#include "rpc/stream_infer.h"

namespace stoker {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// One unary inference. Deletes itself when gRPC is through with it.
class UnaryInfer final : public ServerUnaryReactor {
 public:
  UnaryInfer(const InferCall::Services& services,
             const CallbackServerContext& context,
             const grpc::ByteBuffer& request, grpc::ByteBuffer* response)
      : call_(InferCall::Start(
            services, request, absl::FromChrono(context.deadline()),
            AnswerForm::kUnary, [this, response](InferCall::Answer answer) {
              *response = std::move(answer.message);
              Finish(ToGrpcStatus(answer.status));
            })) {}

 private:
  // gRPC calls both only after the method has returned this reactor, so call_
  // is set.
  void OnCancel() override { call_->Cancel(); }
  void OnDone() override { delete this; }

  const std::shared_ptr<InferCall> call_;
};

ServerUnaryReactor* Finish(CallbackServerContext* context,
                           const absl::Status& status) {
  ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

ServerUnaryReactor* NotOffered(CallbackServerContext* context,
                               absl::string_view what) {
  return Finish(context, absl::UnimplementedError(absl::StrCat(
                             what, " is not supported by this server")));
}

ServerUnaryReactor* NoExplicitControl(CallbackServerContext* context) {
  return Finish(
      context,
      absl::UnavailableError(
          "explicit model load / unload is not allowed: the server follows "
          "its model repository"));
}

}  // namespace

InferenceService::InferenceService(std::string name, std::string version,
                                   const InferCall::Services& services)
    : name_(std::move(name)),
      version_(std::move(version)),
      services_(services) {}

ServerUnaryReactor* InferenceService::ModelInfer(
    Context* context, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return new UnaryInfer(services_, *context, *request, response);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
InferenceService::ModelStreamInfer(Context* context) {
  auto stream = std::make_shared<StreamInfer>(
      services_, *context,
      [this](const StreamInfer* done) { RemoveStream(done); });
  bool ending = false;
  {
    absl::MutexLock lock(&mu_);
    streams_[stream.get()] = stream;
    ending = ending_;
  }
  stream->Start();
  if (ending) stream->End();
  return stream
      .get();  // alive until RemoveStream, which comes after this returns
}

void InferenceService::RemoveStream(const StreamInfer* stream) {
  std::shared_ptr<StreamInfer> last;  // dies outside the lock
  absl::MutexLock lock(&mu_);
  auto node = streams_.extract(stream);
  if (!node.empty()) last = std::move(node.mapped());
}

void InferenceService::EndStreams() {
  std::vector<std::shared_ptr<StreamInfer>> open;
  {
    absl::MutexLock lock(&mu_);
    ending_ = true;
    for (const auto& [key, stream] : streams_) open.push_back(stream);
  }
  for (const std::shared_ptr<StreamInfer>& stream : open) stream->End();
}

ServerUnaryReactor* InferenceService::ServerLive(
    Context* context, const inference::ServerLiveRequest*,
    inference::ServerLiveResponse* response) {
  response->set_live(true);
  return Finish(context, absl::OkStatus());
}

ServerUnaryReactor* InferenceService::ServerReady(
    Context* context, const inference::ServerReadyRequest*,
    inference::ServerReadyResponse* response) {
  response->set_ready(services_.manager.ServerReady());
  return Finish(context, absl::OkStatus());
}

ServerUnaryReactor* InferenceService::ModelReady(
    Context* context, const inference::ModelReadyRequest* request,
    inference::ModelReadyResponse* response) {
  const absl::StatusOr<int64_t> version = ParseVersion(request->version());
  if (version.ok())
    response->set_ready(services_.manager.Ready(request->name(), *version));
  return Finish(context, version.status());
}

ServerUnaryReactor* InferenceService::ServerMetadata(
    Context* context, const inference::ServerMetadataRequest*,
    inference::ServerMetadataResponse* response) {
  FillServerMetadata(name_, version_, response);
  return Finish(context, absl::OkStatus());
}

absl::StatusOr<ModelHandle> InferenceService::Acquire(
    const std::string& model, const std::string& version) const {
  ASSIGN_OR_RETURN(const int64_t number, ParseVersion(version));
  return services_.manager.Acquire(model, number);
}

ServerUnaryReactor* InferenceService::ModelMetadata(
    Context* context, const inference::ModelMetadataRequest* request,
    inference::ModelMetadataResponse* response) {
  const absl::StatusOr<ModelHandle> handle =
      Acquire(request->name(), request->version());
  if (!handle.ok()) return Finish(context, handle.status());
  FillModelMetadata(handle->spec(), response);
  if (!request->version().empty()) {
    response->add_versions(absl::StrCat(handle->spec().version));
    return Finish(context, absl::OkStatus());
  }
  for (const VersionStatus& status : services_.manager.Index()) {
    if (status.model == request->name() &&
        status.state == VersionState::kServing) {
      response->add_versions(absl::StrCat(status.version));
    }
  }
  return Finish(context, absl::OkStatus());
}

ServerUnaryReactor* InferenceService::ModelConfig(
    Context* context, const inference::ModelConfigRequest* request,
    inference::ModelConfigResponse* response) {
  const absl::StatusOr<ModelHandle> handle =
      Acquire(request->name(), request->version());
  if (handle.ok()) FillModelConfig(handle->spec(), response->mutable_config());
  return Finish(context, handle.status());
}

absl::Status InferenceService::FillStatistics(
    const inference::ModelStatisticsRequest& request,
    inference::ModelStatisticsResponse* response) const {
  ASSIGN_OR_RETURN(const int64_t version, ParseVersion(request.version()));
  for (const VersionStatus& status : services_.manager.Index()) {
    if (status.state != VersionState::kServing) continue;
    if (!request.name().empty() && request.name() != status.model) continue;
    if (version != 0 && version != status.version) continue;
    const absl::StatusOr<ModelHandle> handle =
        services_.manager.Acquire(status.model, status.version);
    if (!handle.ok()) continue;  // unloaded since
    FillModelStatistics(handle->spec(), handle->stats().Snapshot(),
                        response->add_model_stats());
  }
  if (!request.name().empty() && response->model_stats().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "requested model '", Excerpt(request.name()), "' is not available",
        version == 0 ? "" : absl::StrCat(" in version ", version)));
  }
  return absl::OkStatus();
}

ServerUnaryReactor* InferenceService::ModelStatistics(
    Context* context, const inference::ModelStatisticsRequest* request,
    inference::ModelStatisticsResponse* response) {
  return Finish(context, FillStatistics(*request, response));
}

ServerUnaryReactor* InferenceService::RepositoryIndex(
    Context* context, const inference::RepositoryIndexRequest* request,
    inference::RepositoryIndexResponse* response) {
  if (!request->repository_name().empty()) {
    return NotOffered(context, "'repository_name' specification");
  }
  FillRepositoryIndex(services_.manager.Index(), request->ready(), response);
  return Finish(context, absl::OkStatus());
}

ServerUnaryReactor* InferenceService::RepositoryModelLoad(
    Context* context, const inference::RepositoryModelLoadRequest*,
    inference::RepositoryModelLoadResponse*) {
  return NoExplicitControl(context);
}

ServerUnaryReactor* InferenceService::RepositoryModelUnload(
    Context* context, const inference::RepositoryModelUnloadRequest*,
    inference::RepositoryModelUnloadResponse*) {
  return NoExplicitControl(context);
}

ServerUnaryReactor* InferenceService::SystemSharedMemoryStatus(
    Context* context, const inference::SystemSharedMemoryStatusRequest*,
    inference::SystemSharedMemoryStatusResponse*) {
  return NotOffered(context, "system shared memory");
}

ServerUnaryReactor* InferenceService::SystemSharedMemoryRegister(
    Context* context, const inference::SystemSharedMemoryRegisterRequest*,
    inference::SystemSharedMemoryRegisterResponse*) {
  return NotOffered(context, "system shared memory");
}

ServerUnaryReactor* InferenceService::SystemSharedMemoryUnregister(
    Context* context, const inference::SystemSharedMemoryUnregisterRequest*,
    inference::SystemSharedMemoryUnregisterResponse*) {
  return NotOffered(context, "system shared memory");
}

ServerUnaryReactor* InferenceService::CudaSharedMemoryStatus(
    Context* context, const inference::CudaSharedMemoryStatusRequest*,
    inference::CudaSharedMemoryStatusResponse*) {
  return NotOffered(context, "CUDA shared memory");
}

ServerUnaryReactor* InferenceService::CudaSharedMemoryRegister(
    Context* context, const inference::CudaSharedMemoryRegisterRequest*,
    inference::CudaSharedMemoryRegisterResponse*) {
  return NotOffered(context, "CUDA shared memory");
}

ServerUnaryReactor* InferenceService::CudaSharedMemoryUnregister(
    Context* context, const inference::CudaSharedMemoryUnregisterRequest*,
    inference::CudaSharedMemoryUnregisterResponse*) {
  return NotOffered(context, "CUDA shared memory");
}

ServerUnaryReactor* InferenceService::TraceSetting(
    Context* context, const inference::TraceSettingRequest*,
    inference::TraceSettingResponse*) {
  return NotOffered(context, "tracing");
}

ServerUnaryReactor* InferenceService::LogSettings(
    Context* context, const inference::LogSettingsRequest*,
    inference::LogSettingsResponse*) {
  return NotOffered(context, "changing log settings remotely");
}

}  // namespace stoker
