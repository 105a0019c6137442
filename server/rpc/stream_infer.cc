#include "rpc/stream_infer.h"

#include <utility>
#include <vector>

#include "rpc/method_table.h"
#include "rpc/status_mapping.h"

namespace stoker {
namespace {

// Of such, the window that a stream has anyway lets one through at a time.
constexpr size_t kSmallMessage = 64 << 10;

const Method& TheMethod() {
  static const Method& method = *FindMethod(InferencePath("ModelStreamInfer"));
  return method;
}

bool WantsErrorsToEndStream(const Call& call) {
  const std::string* const wanted = call.FindHeader("triton_grpc_error");
  return wanted != nullptr && *wanted == "true";
}

}  // namespace

StreamInfer::StreamInfer(const InferCall::Services& services, Call& call)
    : services_(services),
      call_(call),
      caller_(services.gate, services.telemetry, TheMethod(), call, "stream"),
      errors_end_stream_(WantsErrorsToEndStream(call)),
      ticket_(services.admission) {}

void StreamInfer::OnStart() {
  absl::Status status = caller_.Check(Target::Server());
  if (status.ok()) {
    status = ticket_.TakeIdle(Admission::Idle::kStreams, Admission::kCallBytes);
  }
  absl::MutexLock lock(&mu_);
  if (!status.ok()) {
    InferCall::Refused(services_, status, &caller_);
    StopReadingLocked(std::move(status));
  }
  AdvanceLocked();
}

CallStatus StreamInfer::MayGoOn() {
  return ToCallStatus(caller_.Check(Target::Server()));
}

void StreamInfer::OnStop() {
  absl::MutexLock lock(&mu_);
  if (!end_.has_value())
    StopReadingLocked(absl::UnavailableError("Server exiting"));
  AdvanceLocked();
}

void StreamInfer::OnEndOfMessages() {
  absl::MutexLock lock(&mu_);
  reading_ = false;
  StopReadingLocked(absl::OkStatus());
  AdvanceLocked();
}

void StreamInfer::OnMessage(const ByteChain& message) {
  const std::shared_ptr<Slot> slot = OpenSlot();
  // Null once the stream is ending: what came too late is dropped.
  std::shared_ptr<InferCall> infer;
  if (slot != nullptr) {
    infer = InferCall::Start(
        services_, message, call_.deadline(), AnswerForm::kStream, slot->ticket,
        slot->reserved,
        [this, slot](InferCall::Answer answer) { SetAnswer(*slot, answer); },
        &caller_, &slot->pass);
  }
  bool cancelled = false;
  {
    absl::MutexLock lock(&mu_);
    reading_ = false;
    if (slot != nullptr && !slot->status.has_value()) {
      slot->call = infer;
      cancelled = deaf_;
    }
    AdvanceLocked();
  }
  if (cancelled) infer->Cancel();
}

// A small one is refused when it is whole, inside the stream. A large one that
// there is no room for can't be waited for, and ends the stream.
CallStatus StreamInfer::Reserve(size_t bytes) {
  absl::MutexLock lock(&mu_);
  if (arriving_ == nullptr) {
    if (bytes <= kSmallMessage) return {};
    arriving_ = std::make_shared<Slot>(services_.admission);
  }
  const absl::Status status =
      arriving_->ticket.TakeIdle(Admission::Idle::kMessages, bytes);
  if (status.ok()) {
    arriving_->reserved += bytes;
  } else {
    InferCall::Refused(services_, status, &caller_);
  }
  return ToCallStatus(status);
}

std::shared_ptr<StreamInfer::Slot> StreamInfer::OpenSlot() {
  absl::MutexLock lock(&mu_);
  std::shared_ptr<Slot> slot = std::move(arriving_);
  arriving_ = nullptr;
  if (end_.has_value()) return nullptr;
  if (slot == nullptr) {
    slot = std::make_shared<Slot>(services_.admission);
  } else {
    slot->ticket.Busy();
  }
  return slots_.emplace_back(std::move(slot));
}

void StreamInfer::SetAnswer(Slot& slot, InferCall::Answer& answer) {
  // The last answer ends the call, which may be gone before this returns.
  const std::shared_ptr<Call> keep = call_.shared_from_this();
  if (!answer.status.ok() && !errors_end_stream_) {
    answer.message = EncodeStreamError(answer.status, answer.id);
    answer.status = absl::OkStatus();
  }
  std::shared_ptr<InferCall> answered;  // dies outside the lock
  absl::MutexLock lock(&mu_);
  answered.swap(slot.call);
  slot.status = std::move(answer.status);
  slot.answer = std::move(answer.message);
  AdvanceLocked();
}

void StreamInfer::OnWritten(bool ok) {
  std::shared_ptr<Slot> written;  // dies outside the lock
  absl::MutexLock lock(&mu_);
  written.swap(writing_);
  if (!ok) {
    deaf_ = true;
    StopReadingLocked(absl::CancelledError("the client has gone"));
  }
  AdvanceLocked();
}

void StreamInfer::OnCancel() {
  std::vector<std::shared_ptr<InferCall>> running;
  {
    absl::MutexLock lock(&mu_);
    deaf_ = true;
    StopReadingLocked(absl::CancelledError("the client has gone"));
    for (const std::shared_ptr<Slot>& slot : slots_) {
      if (slot->call != nullptr) running.push_back(slot->call);
    }
    AdvanceLocked();
  }
  for (const std::shared_ptr<InferCall>& call : running) call->Cancel();
}

void StreamInfer::StopReadingLocked(absl::Status status) {
  if (!end_.has_value() || end_->ok()) end_ = std::move(status);
}

void StreamInfer::WriteLocked(std::shared_ptr<Slot> slot) {
  if (deaf_) return;
  if (!slot->status->ok()) {
    deaf_ = true;
    StopReadingLocked(*std::move(slot->status));
    return;
  }
  writing_ = std::move(slot);
  call_.Write(writing_->answer);
}

void StreamInfer::AdvanceLocked() {
  if (finished_) return;
  while (writing_ == nullptr && !slots_.empty() &&
         slots_.front()->status.has_value()) {
    std::shared_ptr<Slot> slot = std::move(slots_.front());
    slots_.pop_front();
    WriteLocked(std::move(slot));
  }
  if (!reading_ && !end_.has_value() && slots_.size() < kMaxInFlight) {
    reading_ = true;
    call_.Read();
  }
  if (end_.has_value() && slots_.empty() && writing_ == nullptr) {
    finished_ = true;
    call_.Finish(ToCallStatus(*end_));
  }
}

}  // namespace stoker
