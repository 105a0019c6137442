#include "rpc/rpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rpc/completion_thread.h"
#include "rpc/health_service.h"
#include "rpc/inference_service.h"
#include "spdlog/spdlog.h"

namespace stoker {
namespace {

// gRPC takes a port modulo 65536, and 443 where there is none.
absl::Status CheckAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gRPC address: expected host:port with a port up to 65535, got '",
        address, "'"));
  }
  return absl::OkStatus();
}

}  // namespace

// Order of members is order of ownership: the server stops first, the
// completion thread last, when no call can hand it anything any more.
struct RpcServer::Impl {
  Impl(const RpcServerOptions& options, ModelManager& models, Clock& clock,
       MetricRegistry& metrics)
      : manager(models),
        inference(
            options.server_name, options.server_version,
            InferCall::Services{models, clock, metrics, completion, submitted}),
        health([this](const std::string& service) { return Serves(service); }) {
  }

  std::optional<bool> Serves(const std::string& service);
  bool Ready();

  ModelManager& manager;
  std::atomic<bool> was_ready = false;
  std::atomic<bool> stopping = false;
  std::atomic<int> submitted = 0;
  CompletionThread completion;
  InferenceService inference;
  HealthService health;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

bool RpcServer::Impl::Ready() {
  const bool ready = manager.ServerReady();
  if (ready) was_ready.store(true, std::memory_order_relaxed);
  return ready;
}

std::optional<bool> RpcServer::Impl::Serves(const std::string& service) {
  if (service == "liveness") return true;
  const bool stops = stopping.load(std::memory_order_relaxed);
  if (service == "startup")
    return Ready() || was_ready.load(std::memory_order_relaxed);
  if (service.empty() || service == "readiness" ||
      service == inference::GRPCInferenceService::service_full_name()) {
    return Ready() && !stops;
  }
  if (manager.Ready(service, 0)) return !stops;
  const std::vector<std::string> names = manager.ModelNames();
  if (std::find(names.begin(), names.end(), service) == names.end())
    return std::nullopt;
  return false;
}

RpcServer::RpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

RpcServer::~RpcServer() { Shutdown(absl::InfinitePast()); }

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    RpcServerOptions options, ModelManager& manager, Clock& clock,
    MetricRegistry& metrics) {
  RETURN_IF_ERROR(CheckAddress(options.address));
  auto impl = std::make_unique<Impl>(options, manager, clock, metrics);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  grpc::ServerBuilder builder;
  // Two servers on one port would each get some of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(),
                           &impl->port);
  builder.RegisterService(&impl->inference);
  builder.RegisterService(&impl->health);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->port <= 0) {
    return absl::UnavailableError(
        absl::StrCat("can't listen for gRPC on '", options.address,
                     "': expected host:port with a free port of this machine "
                     "(port 0: any)"));
  }
  spdlog::info("gRPC listens on {}, port {}", options.address, impl->port);
  return std::unique_ptr<RpcServer>(new RpcServer(std::move(impl)));
}

int RpcServer::port() const { return impl_->port; }

void RpcServer::UpdateHealth() {
  impl_->Ready();
  impl_->health.Update();
}

void RpcServer::Shutdown(absl::Time deadline) {
  if (impl_->server == nullptr) return;
  impl_->stopping.store(true, std::memory_order_relaxed);
  impl_->health.EndWatches();
  impl_->inference.EndStreams();
  // gRPC takes a time before 1970 for "never".
  impl_->server->Shutdown(
      absl::ToChronoTime(std::max(deadline, absl::UnixEpoch())));
}

}  // namespace stoker
