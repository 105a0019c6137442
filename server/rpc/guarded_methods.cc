#include "rpc/guarded_methods.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "access/method.h"
#include "access/policy.h"
#include "base/log.h"
#include "health.pb.h"
#include "metrics/catalog.h"
#include "open_inference.pb.h"
#include "rpc/call_access.h"
#include "rpc/load_request.h"
#include "rpc/status_mapping.h"
#include "rpc/unary_method.h"

namespace stoker {
namespace {

// What a request is about; nullopt: it is no such message, and will be refused
// as that.
struct Subject {
  Target::Models models = Target::Models::kNone;
  std::string object;  // a model, or a region of memory

  Target target() const { return {models, object}; }
};
using ReadSubject = std::optional<Subject> (*)(const ByteChain& message);

std::optional<Subject> OfServer(const ByteChain&) { return Subject(); }
std::optional<Subject> OfAllModels(const ByteChain&) {
  return Subject{Target::Models::kAll, ""};
}

template <typename Request>
std::optional<Subject> OfModel(const ByteChain& message) {
  Request request;
  if (!ParseMessage(message, request).ok()) return std::nullopt;
  return Subject{Target::Models::kOne, request.name()};
}
template <typename Request>
std::optional<Subject> OfModelName(const ByteChain& message) {
  Request request;
  if (!ParseMessage(message, request).ok()) return std::nullopt;
  return Subject{Target::Models::kOne, request.model_name()};
}
template <typename Request>
std::optional<Subject> OfRegion(const ByteChain& message) {
  Request request;
  if (!ParseMessage(message, request).ok()) return std::nullopt;
  return Subject{Target::Models::kNone, request.name()};
}

std::optional<Subject> OfLoad(const ByteChain& message) {
  std::optional<std::string> model = ModelOfLoadRequest(message);
  if (!model.has_value()) return std::nullopt;
  return Subject{Target::Models::kOne, *std::move(model)};
}

// Without a name it is about all of them.
std::optional<Subject> OrAll(std::optional<Subject> subject) {
  if (subject.has_value() && subject->object.empty()) {
    subject->models = Target::Models::kAll;
  }
  return subject;
}
std::optional<Subject> OfStatistics(const ByteChain& message) {
  return OrAll(OfModel<inference::ModelStatisticsRequest>(message));
}
std::optional<Subject> OfTrace(const ByteChain& message) {
  return OrAll(OfModelName<inference::TraceSettingRequest>(message));
}

// Of all names that the health service knows, a model's is one that the server
// has not for itself.
std::optional<Subject> OfHealth(const ByteChain& message) {
  grpc::health::v1::HealthCheckRequest request;
  if (!ParseMessage(message, request).ok()) return std::nullopt;
  for (const char* own : {"", "liveness", "readiness", "startup",
                          "inference.GRPCInferenceService"}) {
    if (request.service() == own) return Subject();
  }
  return Subject{Target::Models::kOne, request.service()};
}

ReadSubject SubjectOf(const Method& method) {
  const std::string_view name = method.name();
  if (name == "Check" || name == "Watch") return OfHealth;
  if (name == "ModelReady") return OfModel<inference::ModelReadyRequest>;
  if (name == "ModelMetadata") return OfModel<inference::ModelMetadataRequest>;
  if (name == "ModelConfig") return OfModel<inference::ModelConfigRequest>;
  if (name == "ModelStatistics") return OfStatistics;
  if (name == "RepositoryIndex") return OfAllModels;
  if (name == "RepositoryModelLoad") {
    return OfLoad;
  }
  if (name == "RepositoryModelUnload") {
    return OfModelName<inference::RepositoryModelUnloadRequest>;
  }
  if (name == "TraceSetting") return OfTrace;
  if (name == "SystemSharedMemoryRegister") {
    return OfRegion<inference::SystemSharedMemoryRegisterRequest>;
  }
  if (name == "SystemSharedMemoryUnregister") {
    return OfRegion<inference::SystemSharedMemoryUnregisterRequest>;
  }
  if (name == "CudaSharedMemoryRegister") {
    return OfRegion<inference::CudaSharedMemoryRegisterRequest>;
  }
  if (name == "CudaSharedMemoryUnregister") {
    return OfRegion<inference::CudaSharedMemoryUnregisterRequest>;
  }
  return OfServer;
}

// A handler behind the gate. Once it has refused, the handler behind it hears
// of nothing more.
class GuardedHandler final : public CallHandler {
 public:
  GuardedHandler(Call& call, const Guard& guard, const Method& method,
                 ReadSubject read, std::unique_ptr<CallHandler> handler)
      : call_(call),
        guard_(guard),
        method_(method),
        read_(read),
        access_(guard.gate, method, call),
        handler_(std::move(handler)) {}

  void OnStart() override {
    if (Proceeds(CheckOrigin()) && LetsIn(Target::Server()) &&
        Proceeds(access_.Enter(pass_))) {
      handler_->OnStart();
    }
  }
  CallStatus Reserve(size_t bytes) override {
    return refused_ ? CallStatus() : handler_->Reserve(bytes);
  }
  void OnMessage(const ByteChain& message) override {
    if (refused_) return;
    if (const std::optional<Subject> subject = read_(message)) {
      if (!LetsIn(subject->target())) return;
      if (method_.changes) LogChange(subject->object);
      subject_ = *subject;
    }
    handler_->OnMessage(message);
  }
  void OnEndOfMessages() override {
    if (!refused_) handler_->OnEndOfMessages();
  }
  void OnWritten(bool ok) override {
    if (!refused_) handler_->OnWritten(ok);
  }
  void OnCancel() override {
    if (!refused_) handler_->OnCancel();
  }
  void OnStop() override {
    if (!refused_) handler_->OnStop();
  }
  CallStatus MayGoOn() override {
    if (refused_ || !method_.stays_open) return {};
    return ToCallStatus(access_.Check(subject_.target()));
  }

 private:
  // Of what nobody else is asked about.
  absl::Status CheckOrigin() {
    const bool open = guard_.knows_clients || !method_.changes ||
                      method_.group == MethodGroup::kSharedMemory;
    if (open || call_.peer()->local) return absl::OkStatus();
    guard_.metrics
        .Counter(metric::kAccessRefused, {{"caller", AccessPolicy::kAnonymous},
                                          {"reason", "not_local"}})
        .Add();
    guard_.audit.Refusal(
        {AccessPolicy::kAnonymous, call_.peer()->shown(), method_, ""},
        AuditLog::Standing::kAnybody, "not of this machine");
    return absl::PermissionDeniedError(
        absl::StrCat(std::string(method_.name()),
                     " changes the server: expected a client on its machine, "
                     "or a server that asks who it is, by --policy or "
                     "--tls-client-ca"));
  }
  bool LetsIn(const Target& target) { return Proceeds(access_.Check(target)); }
  bool Proceeds(const absl::Status& status) {
    if (status.ok()) return true;
    refused_ = true;
    call_.Finish(ToCallStatus(status));
    return false;
  }

  void LogChange(std::string_view object) {
    if (access_.LogChange(object)) return;
    guard_.audit.Change(
        {AccessPolicy::kAnonymous, call_.peer()->shown(), method_, object},
        AuditLog::Standing::kAnybody);
  }

  // Touched on the call's loop only.
  Call& call_;
  const Guard& guard_;
  const Method& method_;
  const ReadSubject read_;
  const CallAccess access_;
  const std::unique_ptr<CallHandler> handler_;
  CallerPass pass_;
  Subject subject_;  // of the newest message
  bool refused_ = false;
};

}  // namespace

void GuardMethods(MethodTable& methods, const Guard& guard) {
  methods.Wrap([&guard](const std::string& path,
                        MethodTable::MakeHandler make) {
    const Method* const method = FindMethod(path);
    if (method == nullptr) {
      log::Critical("{} is in no group that a policy could grant", path);
      std::abort();
    }
    const bool nothing_to_do = method->group == MethodGroup::kInfer ||
                               (guard.gate == nullptr && !method->changes);
    if (nothing_to_do) return make;
    return MethodTable::MakeHandler(
        [&guard, method, read = SubjectOf(*method),
         make = std::move(make)](Call& call) -> std::unique_ptr<CallHandler> {
          return std::make_unique<GuardedHandler>(call, guard, *method, read,
                                                  make(call));
        });
  });
}

}  // namespace stoker
