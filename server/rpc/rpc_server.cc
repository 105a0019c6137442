#include "rpc/rpc_server.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "access/audit_log.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "rpc/completion_thread.h"
#include "rpc/guarded_methods.h"
#include "rpc/health_service.h"
#include "rpc/http_service.h"
#include "rpc/inference_service.h"
#include "rpc/log_settings_service.h"
#include "rpc/reflection_service.h"
#include "rpc/repository_service.h"
#include "rpc/shared_memory.h"
#include "rpc/shared_memory_service.h"
#include "rpc/trace_settings_service.h"
#include "rpc/unary_method.h"
#include "wire/tls_context.h"
#include "wire/wire_server.h"

namespace stoker {
namespace {

constexpr char kInferenceService[] = "inference.GRPCInferenceService";
constexpr char kHealthService[] = "grpc.health.v1.Health";

}  // namespace

// Order of members is order of ownership: the server stops first, the
// completion thread last, when no call can hand it anything any more.
struct RpcServer::Impl {
  Impl(const RpcServerOptions& options, ModelManager& models, Clock& clock,
       MetricRegistry& metrics)
      : manager(models),
        audit(clock),
        guard{options.gate, audit, metrics,
              options.gate != nullptr ||
                  (options.tls != nullptr && options.tls->asks_clients())},
        max_load_bytes(options.max_load_bytes),
        admission(options.max_request_bytes, metrics),
        shared_memory(options.allow_client_shm
                          ? std::make_unique<SharedMemoryRegions>(
                                options.max_request_bytes, metrics)
                          : nullptr),
        inference(
            options.server_version,
            InferCall::Services{models, clock, metrics, completion, submitted,
                                admission, reader, shared_memory.get(),
                                options.gate, options.telemetry}),
        health([this](const std::string& service) { return Serves(service); },
               &admission),
        methods(Methods()),
        http(inference.services(), methods,
             {admission, loads,
              // Files are in base64 there.
              models.explicit_control() ? options.max_load_bytes / 3 * 4
                                        : kSmallMessageBytes}) {}

  MethodTable Methods();
  std::optional<bool> Serves(const std::string& service);
  bool Ready();
  absl::Status StartWire(const RpcServerOptions& options,
                         MetricRegistry& metrics, Clock& clock);
  size_t MaxMessageBytes() const {
    return std::min<size_t>(admission.max_message_bytes(), INT32_MAX);
  }
  std::function<void()> OnStall() {
    return [this] { admission.CountRefusal("", Refusal::kStalled); };
  }

  ModelManager& manager;
  AuditLog audit;
  const Guard guard;
  std::atomic<bool> was_ready = false;
  std::atomic<bool> stopping = false;
  std::atomic<int> submitted = 0;
  const size_t max_load_bytes;
  Admission admission;
  std::unique_ptr<SharedMemoryRegions> shared_memory;  // null: not allowed
  CompletionThread completion;
  CompletionThread reader{"reader"};
  CompletionThread loads{"loads"};
  InferenceService inference;
  HealthService health;
  const MethodTable methods;
  const HttpService http;
  std::unique_ptr<WireServer> wire;
  int http_port = 0;
};

MethodTable RpcServer::Impl::Methods() {
  MethodTable all;
  inference.AddMethods(all);
  AddRepositoryMethods(all, {manager, admission, loads, max_load_bytes});
  AddSharedMemoryMethods(all, shared_memory.get());
  AddLogSettings(all);
  AddTraceSettings(all, inference.services().telemetry);
  health.AddMethods(all);
  AddReflection(all, {kInferenceService, kHealthService}, &admission);
  GuardMethods(all, guard);
  return all;
}

absl::Status RpcServer::Impl::StartWire(const RpcServerOptions& options,
                                        MetricRegistry& metrics, Clock& clock) {
  WireOptions wire_options;
  wire_options.address = options.address;
  wire_options.passed = options.passed;
  wire_options.loops = options.loops;
  wire_options.cpus = options.cpus;
  wire_options.tls = options.tls;
  wire_options.proxies = options.proxies;
  wire_options.limits = options.limits;
  wire_options.limits.max_message_bytes = MaxMessageBytes();
  wire_options.on_stall = OnStall();
  ASSIGN_OR_RETURN(
      wire,
      WireServer::Start(
          wire_options, [this](Call& call) { return methods.NewHandler(call); },
          metrics, clock));
  if (options.http_address.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(http_port,
                   wire->ListenHttp({"HTTP", options.http_address, options.tls,
                                     [this](HttpCall& call) {
                                       return http.NewHandler(call);
                                     }}));
  return absl::OkStatus();
}

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
      service == kInferenceService) {
    return Ready() && !stops;
  }
  if (manager.Ready(service, {})) return !stops;
  const std::vector<std::string> names = manager.ModelNames();
  if (std::find(names.begin(), names.end(), service) == names.end())
    return std::nullopt;
  return false;
}

RpcServer::RpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

RpcServer::~RpcServer() { Shutdown(MonotonicTime::InfinitePast()); }

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    RpcServerOptions options, ModelManager& manager, Clock& clock,
    MetricRegistry& metrics) {
  if (options.address.empty()) {
    return absl::InvalidArgumentError(
        "expected an address for gRPC, host:port or unix:PATH, got ''");
  }
  auto impl = std::make_unique<Impl>(options, manager, clock, metrics);
  RETURN_IF_ERROR(impl->StartWire(options, metrics, clock));
  log::Info("gRPC listens on {}, port {}", options.address, impl->wire->port());
  if (!options.http_address.empty()) {
    log::Info("HTTP listens on {}, port {}", options.http_address,
              impl->http_port);
  }
  return std::unique_ptr<RpcServer>(new RpcServer(std::move(impl)));
}

int RpcServer::port() const { return impl_->wire->port(); }

int RpcServer::http_port() const { return impl_->http_port; }

absl::StatusOr<FileDescriptor> RpcServer::Connect() {
  return impl_->wire->Connect();
}

void RpcServer::UpdateHealth() {
  impl_->Ready();
  impl_->health.Update();
}

void RpcServer::Shutdown(MonotonicTime deadline) {
  impl_->stopping.store(true, std::memory_order_relaxed);
  if (impl_->wire != nullptr) impl_->wire->Shutdown(deadline);
}

}  // namespace stoker
