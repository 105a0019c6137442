#include "rpc/health_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_text.h"
#include "base/status_macros.h"
#include "rpc/status_mapping.h"
#include "rpc/unary_method.h"

namespace stoker {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using Status = HealthCheckResponse::ServingStatus;

Status WatchStatus(std::optional<bool> serves) {
  if (!serves.has_value()) return HealthCheckResponse::SERVICE_UNKNOWN;
  return *serves ? HealthCheckResponse::SERVING
                 : HealthCheckResponse::NOT_SERVING;
}

// A watch keeps its name, and every change is looked up by it.
absl::Status CheckName(std::string_view service) {
  constexpr size_t kMaxName = 1024;
  if (service.size() <= kMaxName) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected a service's name of at most ", kMaxName,
                   " bytes, got ", service.size()));
}

}  // namespace

// One Watch call: writes the newest status, one write at a time; statuses that
// were overtaken while a write was under way are skipped.
class HealthWatch final : public CallHandler {
 public:
  HealthWatch(HealthService& service, Call& call)
      : service_(service), call_(call) {
    if (service_.admission_ != nullptr) ticket_.emplace(*service_.admission_);
  }
  ~HealthWatch() override { service_.Remove(*this); }

  // Any thread that keeps the call alive.
  void Update() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    WriteChangeLocked();
  }

 private:
  void OnStart() override {
    if (ticket_.has_value()) {
      const absl::Status full =
          ticket_->TakeIdle(Admission::Idle::kStreams, Admission::kCallBytes);
      if (!full.ok()) return Abandon(full);
    }
    call_.ReadSoon();
  }
  CallStatus Reserve(size_t bytes) override { return SmallMessage(bytes); }

  void OnMessage(const ByteChain& message) override ABSL_LOCKS_EXCLUDED(mu_) {
    HealthCheckRequest request;
    if (absl::Status status = ParseMessage(message, request); !status.ok()) {
      return Abandon(status);
    }
    if (absl::Status status = CheckName(request.service()); !status.ok()) {
      return Abandon(status);
    }
    {
      absl::MutexLock lock(&mu_);
      name_ = request.service();
      // One that comes while the server stops is told nothing.
      if (end_.has_value()) return FinishLocked();
      WriteChangeLocked();
    }
    service_.Add(*this, call_.weak_from_this());
    Update();  // what changed before it was added
  }

  void OnEndOfMessages() override {
    Abandon(absl::InvalidArgumentError("expected one message, got none"));
  }

  void OnWritten(bool ok) override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (ok) {
      WriteChangeLocked();
    } else {
      end_ = absl::CancelledError("the client has gone");
      FinishLocked();
    }
  }
  void OnCancel() override {
    Abandon(absl::CancelledError("the client has gone"));
  }

  // Ends the call, after the newest status if the client has another.
  void OnStop() override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    end_ = absl::UnavailableError("Server exiting");
    if (name_.has_value()) {
      WriteChangeLocked();
    } else {
      FinishLocked();
    }
  }

  // Ends the call with what was written so far; a write that is under way fails
  // soon.
  void Abandon(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    end_ = status;
    if (!writing_) FinishLocked();
  }

  void FinishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    finished_ = true;
    call_.Finish(ToCallStatus(*end_));
  }

  // The status is looked up under the lock: two threads that look at different
  // moments must write in the order in which they looked.
  void WriteChangeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (finished_ || writing_ || !name_.has_value()) return;
    const Status status = WatchStatus(service_.lookup_(*name_));
    if (written_ != status) {
      written_ = status;
      writing_ = true;
      HealthCheckResponse response;
      response.set_status(status);
      call_.Write(SerialisedMessage(response));
    } else if (end_.has_value()) {
      FinishLocked();
    }
  }

  HealthService& service_;
  Call& call_;
  std::optional<Admission::Ticket> ticket_;

  absl::Mutex mu_;
  std::optional<std::string> name_ ABSL_GUARDED_BY(mu_);  // set: was asked for
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);  // what to finish with
  std::optional<Status> written_ ABSL_GUARDED_BY(mu_);
};

HealthService::HealthService(Lookup lookup, Admission* admission)
    : lookup_(std::move(lookup)), admission_(admission) {}

void HealthService::AddMethods(MethodTable& methods) {
  AddUnary<HealthCheckRequest, HealthCheckResponse>(
      methods, "/grpc.health.v1.Health/Check",
      [this](const HealthCheckRequest& request, HealthCheckResponse& response) {
        return Check(request, response);
      });
  methods.Add("/grpc.health.v1.Health/Watch", [this](Call& call) {
    return std::make_unique<HealthWatch>(*this, call);
  });
}

absl::Status HealthService::Check(const HealthCheckRequest& request,
                                  HealthCheckResponse& response) const {
  RETURN_IF_ERROR(CheckName(request.service()));
  const std::optional<bool> serves = lookup_(request.service());
  if (!serves.has_value()) {
    return absl::NotFoundError(
        absl::StrCat("unknown service '", Excerpt(request.service()),
                     "', expected '', 'liveness', 'readiness', 'startup', "
                     "'inference.GRPCInferenceService' or a model's name"));
  }
  response.set_status(WatchStatus(serves));
  return absl::OkStatus();
}

void HealthService::Update() {
  std::vector<std::pair<std::shared_ptr<Call>, HealthWatch*>> open;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [watch, call] : watches_) {
      if (auto kept = call.lock()) open.emplace_back(std::move(kept), watch);
    }
  }
  for (const auto& [call, watch] : open) watch->Update();
}

void HealthService::Add(HealthWatch& watch, std::weak_ptr<Call> call) {
  absl::MutexLock lock(&mu_);
  watches_[&watch] = std::move(call);
}

void HealthService::Remove(HealthWatch& watch) {
  absl::MutexLock lock(&mu_);
  watches_.erase(&watch);
}

}  // namespace stoker
