#include "rpc/call_server.h"

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/host_port.h"
#include "rpc/grpc_time.h"

namespace stoker {
namespace {

// Calls that one connection may have open. Far more than a queue holds, so that
// what is too much is refused with a reason instead of waiting at the client.
constexpr int kMaxStreams = 10'000;

constexpr int kMaxMetadataBytes = 16 << 10;

constexpr int kKeepaliveMs = 30'000;

void SetLimits(const CallServerOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  builder.SetResourceQuota(
      grpc::ResourceQuota("calls").Resize(options.max_buffer_bytes));
  // Two servers on one port would each get some of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  // A client that vanished without a word is found out by pings; one that
  // connects and never speaks HTTP/2 by the handshake's limit.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             kKeepaliveMs);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CallServer>> CallServer::Start(
    const CallServerOptions& options, MethodTable methods, Clock& clock) {
  // Once and for all: gRPC 1.51 ends by itself, on a thread of its own, when
  // the last of its objects goes, and a server that starts meanwhile crashes.
  static const bool initialised = (grpc_init(), true);
  (void)initialised;
  if (const absl::Status bad = CheckHostPort(options.address); !bad.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("gRPC address: ", bad.message()));
  }
  std::unique_ptr<CallServer> server(new CallServer(std::move(methods), clock));
  grpc::ServerBuilder builder;
  SetLimits(options, builder);
  builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(),
                           &server->port_);
  builder.RegisterAsyncGenericService(&server->service_);
  for (int i = 0; i < options.loops; ++i) {
    server->loops_.push_back(std::make_unique<CallLoop>(
        absl::StrCat("rpc-", i), server->service_, builder.AddCompletionQueue(),
        server->methods_, options.stall_limit, options.on_stall, clock));
  }
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || server->port_ <= 0) {
    return absl::UnavailableError(
        absl::StrCat("can't listen for gRPC on '", options.address,
                     "': expected host:port with a free port of this machine "
                     "(port 0: any)"));
  }
  for (const auto& loop : server->loops_) loop->Start();
  return server;
}

CallServer::~CallServer() { Shutdown(MonotonicTime::InfinitePast()); }

void CallServer::Shutdown(MonotonicTime deadline) {
  absl::MutexLock lock(&mu_);
  if (server_ == nullptr || is_shut_down_) return;
  is_shut_down_ = true;
  for (const auto& loop : loops_) loop->StopCalls();
  server_->Shutdown(GrpcTimeAfter(deadline - clock_.Now()));
  for (const auto& loop : loops_) loop->Join();
}

}  // namespace stoker
