#include "rpc/health_client.h"

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "health.grpc.pb.h"
#include "rpc/grpc_time.h"

namespace stoker {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

absl::StatusOr<bool> AskHealth(const std::string& address,
                               const std::string& service,
                               absl::Duration timeout) {
  grpc::ChannelArguments arguments;
  // The server is asked itself, also where the environment names a proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto health =
      grpc::health::v1::Health::NewStub(grpc::CreateCustomChannel(
          address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_deadline(GrpcTimeAfter(timeout));
  HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse response;
  const grpc::Status status = health->Check(&context, request, &response);
  if (!status.ok()) {
    return absl::Status(
        static_cast<absl::StatusCode>(status.error_code()),
        absl::StrCat("expected the health service at ", address,
                     " to answer within ", absl::FormatDuration(timeout),
                     ", got: ", status.error_message()));
  }
  return response.status() == HealthCheckResponse::SERVING;
}

}  // namespace stoker
