#include "rpc/control_client.h"

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "open_inference.grpc.pb.h"
#include "rpc/grpc_time.h"

namespace stoker {
namespace {

using inference::GRPCInferenceService;

template <typename Request, typename Response>
absl::Status Ask(const ServerAddress& server, const Request& request,
                 absl::Duration timeout,
                 grpc::Status (GRPCInferenceService::Stub::*method)(
                     grpc::ClientContext*, const Request&, Response*)) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                   OpenChannel(server));
  const auto stub = GRPCInferenceService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(GrpcTimeAfter(timeout));
  RETURN_IF_ERROR(ShowToken(server, context));
  Response response;
  const grpc::Status status = ((*stub).*method)(&context, request, &response);
  if (status.ok()) return absl::OkStatus();
  return absl::Status(
      static_cast<absl::StatusCode>(status.error_code()),
      absl::StrCat(server.address, ": ", status.error_message()));
}

}  // namespace

absl::Status LoadModel(const ServerAddress& server, const std::string& model,
                       const ModelOverride& override, absl::Duration timeout) {
  inference::RepositoryModelLoadRequest request;
  request.set_model_name(model);
  auto& parameters = *request.mutable_parameters();
  if (override.config.has_value()) {
    parameters["config"].set_string_param(*override.config);
  }
  for (const auto& [name, content] : override.files) {
    parameters[absl::StrCat("file:", name)].set_bytes_param(content);
  }
  return Ask(server, request, timeout,
             &GRPCInferenceService::Stub::RepositoryModelLoad);
}

absl::Status UnloadModel(const ServerAddress& server, const std::string& model,
                         absl::Duration timeout) {
  inference::RepositoryModelUnloadRequest request;
  request.set_model_name(model);
  return Ask(server, request, timeout,
             &GRPCInferenceService::Stub::RepositoryModelUnload);
}

}  // namespace stoker
