#include "rpc/control_client.h"

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "open_inference.grpc.pb.h"
#include "rpc/grpc_time.h"

namespace stoker {
namespace {

using inference::GRPCInferenceService;

template <typename Request, typename Response>
absl::Status Ask(const std::string& address, const std::string& model,
                 absl::Duration timeout,
                 grpc::Status (GRPCInferenceService::Stub::*method)(
                     grpc::ClientContext*, const Request&, Response*)) {
  grpc::ChannelArguments arguments;
  // The server is asked itself, also where the environment names a proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto stub = GRPCInferenceService::NewStub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_deadline(GrpcTimeAfter(timeout));
  Request request;
  request.set_model_name(model);
  Response response;
  const grpc::Status status = ((*stub).*method)(&context, request, &response);
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat(address, ": ", status.error_message()));
}

}  // namespace

absl::Status LoadModel(const std::string& address, const std::string& model,
                       absl::Duration timeout) {
  return Ask(address, model, timeout,
             &GRPCInferenceService::Stub::RepositoryModelLoad);
}

absl::Status UnloadModel(const std::string& address, const std::string& model,
                         absl::Duration timeout) {
  return Ask(address, model, timeout,
             &GRPCInferenceService::Stub::RepositoryModelUnload);
}

}  // namespace stoker
