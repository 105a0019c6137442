#include "rpc/client_channel.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "access/policy.h"
#include "base/files.h"
#include "base/status_macros.h"

namespace stoker {

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  ASSIGN_OR_RETURN(std::string token,
                   ReadAtMost(Files::Real(), path, kMaxTokenBytes + 2));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) {
    token.pop_back();
  }
  const absl::Status checked = CheckToken(token);
  if (checked.ok()) return token;
  return absl::Status(checked.code(),
                      absl::StrCat(path, ": ", checked.message()));
}

absl::Status ShowToken(const ServerAddress& server,
                       grpc::ClientContext& context) {
  if (server.token_file.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string token, ReadToken(server.token_file));
  context.AddMetadata("authorization", "Bearer " + token);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const ServerAddress& server) {
  grpc::ChannelArguments arguments;
  // The server is asked itself, also where the environment names a proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (server.authorities.empty()) {
    return grpc::CreateCustomChannel(
        server.address, grpc::InsecureChannelCredentials(), arguments);
  }
  grpc::SslCredentialsOptions tls;
  ASSIGN_OR_RETURN(tls.pem_root_certs, Files::Real().Read(server.authorities));
  if (!server.certificate.empty()) {
    ASSIGN_OR_RETURN(tls.pem_cert_chain,
                     Files::Real().Read(server.certificate));
    ASSIGN_OR_RETURN(tls.pem_private_key, Files::Real().Read(server.key));
  }
  if (!server.server_name.empty()) {
    arguments.SetSslTargetNameOverride(server.server_name);
  }
  return grpc::CreateCustomChannel(server.address, grpc::SslCredentials(tls),
                                   arguments);
}

}  // namespace stoker
