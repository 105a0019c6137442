#include "rpc/health_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/error_text.h"
#include "rpc/status_mapping.h"

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

}  // namespace

// One Watch call: writes the newest status, one write at a time; statuses that
// were overtaken while a write was under way are skipped.
class HealthWatch final : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  HealthWatch(std::string service, const HealthService::Lookup& lookup,
              std::function<void(const HealthWatch*)> on_done)
      : service_(std::move(service)),
        lookup_(lookup),
        on_done_(std::move(on_done)) {}

  // gRPC never calls a reaction from inside the call that starts an operation,
  // so starting one under the lock is safe.
  void Update() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    WriteChangeLocked();
  }

  // Ends the call, after the newest status if the client has another.
  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    end_ = status;
    WriteChangeLocked();
  }

  // Ends the call with what was written so far.
  void Abandon(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (finished_) return;
    finished_ = true;
    Finish(ToGrpcStatus(status));
  }

 private:
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_) {
    if (!ok) return Abandon(absl::CancelledError("the client has gone"));
    absl::MutexLock lock(&mu_);
    writing_ = false;
    WriteChangeLocked();
  }
  void OnCancel() override {
    Abandon(absl::CancelledError("the client has gone"));
  }
  void OnDone() override { on_done_(this); }

  // The status is looked up under the lock: two threads that look at different
  // moments must write in the order in which they looked.
  void WriteChangeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (finished_ || writing_) return;
    const Status status = WatchStatus(lookup_(service_));
    const bool changed = written_ != status;
    if (changed) response_.set_status(status);
    written_ = status;
    finished_ = end_.has_value();
    if (finished_ && changed) {
      StartWriteAndFinish(&response_, grpc::WriteOptions(),
                          ToGrpcStatus(*end_));
    } else if (finished_) {
      Finish(ToGrpcStatus(*end_));
    } else if (changed) {
      writing_ = true;
      StartWrite(&response_);
    }
  }

  const std::string service_;
  const HealthService::Lookup& lookup_;
  const std::function<void(const HealthWatch*)> on_done_;

  absl::Mutex mu_;
  HealthCheckResponse response_ ABSL_GUARDED_BY(mu_);  // gRPC's while writing_
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);  // what to finish with
  std::optional<Status> written_ ABSL_GUARDED_BY(mu_);
};

HealthService::HealthService(Lookup lookup) : lookup_(std::move(lookup)) {}

grpc::ServerUnaryReactor* HealthService::Check(
    grpc::CallbackServerContext* context, const HealthCheckRequest* request,
    HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const std::optional<bool> serves = lookup_(request->service());
  if (!serves.has_value()) {
    reactor->Finish(ToGrpcStatus(absl::NotFoundError(
        absl::StrCat("unknown service '", Excerpt(request->service()),
                     "', expected '', 'liveness', 'readiness', 'startup', "
                     "'inference.GRPCInferenceService' or a model's name"))));
    return reactor;
  }
  response->set_status(WatchStatus(serves));
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext*, const HealthCheckRequest* request) {
  auto watch = std::make_shared<HealthWatch>(
      request->service(), lookup_,
      [this](const HealthWatch* done) { Remove(done); });
  bool ending = false;
  {
    absl::MutexLock lock(&mu_);
    watches_[watch.get()] = watch;
    ending = ending_;
  }
  if (ending) {
    watch->Abandon(absl::UnavailableError("Server exiting"));
  } else {
    watch->Update();
  }
  return watch.get();  // alive until Remove, which comes after this returns
}

void HealthService::Update() {
  std::vector<std::shared_ptr<HealthWatch>> open;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [key, watch] : watches_) open.push_back(watch);
  }
  for (const std::shared_ptr<HealthWatch>& watch : open) watch->Update();
}

void HealthService::EndWatches() {
  std::vector<std::shared_ptr<HealthWatch>> open;
  {
    absl::MutexLock lock(&mu_);
    ending_ = true;
    for (const auto& [key, watch] : watches_) open.push_back(watch);
  }
  for (const std::shared_ptr<HealthWatch>& watch : open) {
    watch->End(absl::UnavailableError("Server exiting"));
  }
}

void HealthService::Remove(const HealthWatch* watch) {
  std::shared_ptr<HealthWatch> last;  // dies outside the lock
  absl::MutexLock lock(&mu_);
  auto node = watches_.extract(watch);
  if (!node.empty()) last = std::move(node.mapped());
}

}  // namespace stoker
