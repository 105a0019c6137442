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
absl::Status Ask(const ServerAddress& server, const std::string& model,
                 absl::Duration timeout,
                 grpc::Status (GRPCInferenceService::Stub::*method)(
                     grpc::ClientContext*, const Request&, Response*)) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                   OpenChannel(server));
  const auto stub = GRPCInferenceService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(GrpcTimeAfter(timeout));
  RETURN_IF_ERROR(ShowToken(server, context));
  Request request;
  request.set_model_name(model);
  Response response;
  const grpc::Status status = ((*stub).*method)(&context, request, &response);
  if (status.ok()) return absl::OkStatus();
  return absl::Status(
      static_cast<absl::StatusCode>(status.error_code()),
      absl::StrCat(server.address, ": ", status.error_message()));
}

}  // namespace

absl::Status LoadModel(const ServerAddress& server, const std::string& model,
                       absl::Duration timeout) {
  return Ask(server, model, timeout,
             &GRPCInferenceService::Stub::RepositoryModelLoad);
}

absl::Status UnloadModel(const ServerAddress& server, const std::string& model,
                         absl::Duration timeout) {
  return Ask(server, model, timeout,
             &GRPCInferenceService::Stub::RepositoryModelUnload);
}

}  // namespace stoker
