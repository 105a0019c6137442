#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "loadtest/generator/lane.h"

namespace stoker::loadtest {
namespace {

constexpr char kMethod[] = "/inference.GRPCInferenceService/ModelInfer";
// What the type URL of a packed google.rpc.RetryInfo ends with.
constexpr char kRetryInfo[] = "google.rpc.RetryInfo";

class UnaryLane final : public Lane {
 public:
  explicit UnaryLane(const Wiring& wiring)
      : wiring_(wiring), stub_(wiring.channel) {}

  void Send(const grpc::ByteBuffer& message, int64_t intended_ns) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    Call* call = Take();
    call->intended_ns = intended_ns;
    call->reader = stub_.PrepareUnaryCall(&*call->context, method_, message,
                                          &wiring_.queue);
    call->sent_ns = NowNs();
    call->reader->StartCall();
    call->reader->Finish(&call->answer, &call->status,
                         static_cast<Event*>(call));
  }

  void Cancel() override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    for (const auto& call : calls_) {
      if (call->context) call->context->TryCancel();
    }
  }

  void Close() override {}

  bool idle() override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return idle_.size() == calls_.size();
  }

 private:
  // One call at a time; used again and again.
  struct Call final : Event {
    explicit Call(UnaryLane& the_lane) : lane(the_lane) {}
    void OnEvent(bool) override { lane.OnDone(*this); }

    UnaryLane& lane;
    // Set while the call is under way; changed under the lane's mutex.
    std::optional<grpc::ClientContext> context;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    grpc::ByteBuffer answer;
    grpc::Status status;
    int64_t intended_ns = 0;
    int64_t sent_ns = 0;
  };

  Call* Take() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (idle_.empty()) {
      calls_.push_back(std::make_unique<Call>(*this));
      idle_.push_back(calls_.back().get());
    }
    Call* call = idle_.back();
    idle_.pop_back();
    call->context.emplace();
    if (wiring_.options.timeout > absl::ZeroDuration()) {
      call->context->set_deadline(
          std::chrono::system_clock::now() +
          absl::ToChronoMicroseconds(wiring_.options.timeout));
    }
    return call;
  }

  void OnDone(Call& call) ABSL_LOCKS_EXCLUDED(mu_) {
    Outcome outcome{call.intended_ns, call.sent_ns, NowNs()};
    grpc::Status status = std::move(call.status);
    if (status.ok())
      status = CheckUnaryAnswer(call.answer, wiring_.options.check_answers);
    outcome.code = status.error_code();
    if (!status.ok()) {
      outcome.message = status.error_message();
      outcome.retry_hint =
          status.error_details().find(kRetryInfo) != std::string::npos;
    }
    call.answer.Clear();
    call.reader.reset();
    {
      absl::MutexLock lock(&mu_);
      call.context.reset();
      idle_.push_back(&call);
    }
    wiring_.listener.OnOutcome(*this, std::move(outcome));
  }

  const std::string method_ = kMethod;
  const Wiring wiring_;
  grpc::GenericStub stub_;

  absl::Mutex mu_;
  std::vector<std::unique_ptr<Call>> calls_ ABSL_GUARDED_BY(mu_);
  std::vector<Call*> idle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<Lane> MakeUnaryLane(const Lane::Wiring& wiring) {
  return std::make_unique<UnaryLane>(wiring);
}

}  // namespace stoker::loadtest
