#include "rpc/health_client.h"

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "health.grpc.pb.h"
#include "rpc/grpc_time.h"

namespace stoker {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

absl::StatusOr<bool> Ask(const std::shared_ptr<grpc::Channel>& channel,
                         const ServerAddress& server,
                         const std::string& service, absl::Duration timeout) {
  const auto health = grpc::health::v1::Health::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(GrpcTimeAfter(timeout));
  RETURN_IF_ERROR(ShowToken(server, context));
  HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse response;
  const grpc::Status status = health->Check(&context, request, &response);
  if (!status.ok()) {
    return absl::Status(
        static_cast<absl::StatusCode>(status.error_code()),
        absl::StrCat("expected the health service at ", server.address,
                     " to answer within ", absl::FormatDuration(timeout),
                     ", got: ", status.error_message()));
  }
  return response.status() == HealthCheckResponse::SERVING;
}

}  // namespace

absl::StatusOr<bool> AskHealth(const ServerAddress& server,
                               const std::string& service,
                               absl::Duration timeout) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                   OpenChannel(server));
  return Ask(channel, server, service, timeout);
}

absl::StatusOr<bool> AskHealth(FileDescriptor connection,
                               const std::string& service,
                               absl::Duration timeout) {
  ServerAddress here;
  here.address = "within";
  return Ask(
      grpc::CreateInsecureChannelFromFd(here.address, connection.Release()),
      here, service, timeout);
}

}  // namespace stoker
