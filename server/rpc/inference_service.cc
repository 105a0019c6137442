#include "rpc/inference_service.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_text.h"
#include "base/status_macros.h"
#include "rpc/model_service.h"
#include "rpc/stream_infer.h"
#include "rpc/unary_infer.h"
#include "rpc/unary_method.h"

namespace stoker {
namespace {

constexpr char kServerName[] = "stoker";

}  // namespace

InferenceService::InferenceService(std::string version,
                                   const InferCall::Services& services)
    : version_(std::move(version)), services_(services) {}

void InferenceService::AddMethods(MethodTable& methods) const {
  AddInference(methods);
  AddQueries(methods);
}

void InferenceService::AddInference(MethodTable& methods) const {
  methods.Add(InferencePath("ModelInfer"), [this](Call& call) {
    return std::make_unique<UnaryInfer>(services_, call);
  });
  methods.Add(InferencePath("ModelStreamInfer"), [this](Call& call) {
    return std::make_unique<StreamInfer>(services_, call);
  });
}

template <typename Request, typename Response>
void InferenceService::Add(MethodTable& methods, const char* name,
                           absl::Status (InferenceService::*answer)(
                               const Request&, Response&) const) const {
  AddUnary<Request, Response>(
      methods, InferencePath(name),
      [this, answer](const Request& request, Response& response) {
        return (this->*answer)(request, response);
      });
}

void InferenceService::AddQueries(MethodTable& methods) const {
  Add(methods, "ServerLive", &InferenceService::ServerLive);
  Add(methods, "ServerReady", &InferenceService::ServerReady);
  Add(methods, "ModelReady", &InferenceService::ModelReady);
  Add(methods, "ServerMetadata", &InferenceService::ServerMetadata);
  Add(methods, "ModelMetadata", &InferenceService::ModelMetadata);
  Add(methods, "ModelConfig", &InferenceService::ModelConfig);
  Add(methods, "ModelStatistics", &InferenceService::ModelStatistics);
}

absl::Status InferenceService::ServerLive(
    const inference::ServerLiveRequest& /*request*/,
    inference::ServerLiveResponse& response) const {
  response.set_live(true);
  return absl::OkStatus();
}

absl::Status InferenceService::ServerReady(
    const inference::ServerReadyRequest& /*request*/,
    inference::ServerReadyResponse& response) const {
  response.set_ready(services_.manager.ServerReady());
  return absl::OkStatus();
}

absl::Status InferenceService::ModelReady(
    const inference::ModelReadyRequest& request,
    inference::ModelReadyResponse& response) const {
  ASSIGN_OR_RETURN(const WantedVersion version,
                   ParseVersion(request.version()));
  response.set_ready(services_.manager.Ready(request.name(), version));
  return absl::OkStatus();
}

absl::Status InferenceService::ServerMetadata(
    const inference::ServerMetadataRequest& /*request*/,
    inference::ServerMetadataResponse& response) const {
  FillServerMetadata(kServerName, version_,
                     /*shared_memory=*/services_.shared_memory != nullptr,
                     &response);
  return absl::OkStatus();
}

absl::StatusOr<ModelHandle> InferenceService::Acquire(
    const std::string& model, const std::string& version) const {
  ASSIGN_OR_RETURN(const WantedVersion wanted, ParseVersion(version));
  return services_.manager.Acquire(model, wanted);
}

absl::Status InferenceService::ModelMetadata(
    const inference::ModelMetadataRequest& request,
    inference::ModelMetadataResponse& response) const {
  ASSIGN_OR_RETURN(const ModelHandle handle,
                   Acquire(request.name(), request.version()));
  FillModelMetadata(handle.spec(), &response);
  if (!request.version().empty()) {
    response.add_versions(absl::StrCat(handle.spec().version));
    return absl::OkStatus();
  }
  for (const VersionStatus& status : services_.manager.Index()) {
    if (status.model == request.name() && status.ready()) {
      response.add_versions(absl::StrCat(status.version));
    }
  }
  return absl::OkStatus();
}

absl::Status InferenceService::ModelConfig(
    const inference::ModelConfigRequest& request,
    inference::ModelConfigResponse& response) const {
  ASSIGN_OR_RETURN(const ModelHandle handle,
                   Acquire(request.name(), request.version()));
  FillModelConfig(handle.spec(), response.mutable_config());
  return absl::OkStatus();
}

absl::Status InferenceService::ModelStatistics(
    const inference::ModelStatisticsRequest& request,
    inference::ModelStatisticsResponse& response) const {
  ASSIGN_OR_RETURN(const WantedVersion wanted, ParseVersion(request.version()));
  int64_t version = wanted.number;
  if (!wanted.alias.empty()) {
    ASSIGN_OR_RETURN(const ModelHandle named,
                     services_.manager.Acquire(request.name(), wanted));
    version = named.spec().version;
  }
  for (const VersionStatus& status : services_.manager.Index()) {
    if (!status.ready()) continue;
    if (!request.name().empty() && request.name() != status.model) continue;
    if (version != 0 && version != status.version) continue;
    const absl::StatusOr<ModelHandle> handle =
        services_.manager.Acquire(status.model, {.number = status.version});
    if (!handle.ok()) continue;  // unloaded since
    FillModelStatistics(handle->spec(), handle->stats().Snapshot(),
                        response.add_model_stats());
  }
  if (!request.name().empty() && response.model_stats().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "requested model '", Excerpt(request.name()), "' is not available",
        version == 0 ? "" : absl::StrCat(" in version ", version)));
  }
  return absl::OkStatus();
}

}  // namespace stoker
