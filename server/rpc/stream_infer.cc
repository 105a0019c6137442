#include "rpc/stream_infer.h"

#include <utility>
#include <vector>

#include "rpc/status_mapping.h"

namespace stoker {

StreamInfer::StreamInfer(const InferCall::Services& services, Call& call)
    : services_(services),
      call_(call),
      errors_end_stream_(call.HasHeader("triton_grpc_error", "true")) {}

void StreamInfer::OnStart() {
  absl::MutexLock lock(&mu_);
  AdvanceLocked();
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

void StreamInfer::OnMessage(const grpc::ByteBuffer& message) {
  const std::shared_ptr<Slot> slot = OpenSlot();
  // Null once the stream is ending: what came too late is dropped.
  std::shared_ptr<InferCall> infer;
  if (slot != nullptr) {
    infer = InferCall::Start(services_, message, call_.deadline(),
                             AnswerForm::kStream,
                             [this, slot](InferCall::Answer answer) {
                               SetAnswer(*slot, std::move(answer));
                             });
  }
  bool cancelled = false;
  {
    absl::MutexLock lock(&mu_);
    reading_ = false;
    if (slot != nullptr && !slot->answer.has_value()) {
      slot->call = infer;
      cancelled = deaf_;
    }
    AdvanceLocked();
  }
  if (cancelled) infer->Cancel();
}

std::shared_ptr<StreamInfer::Slot> StreamInfer::OpenSlot() {
  absl::MutexLock lock(&mu_);
  if (end_.has_value()) return nullptr;
  return slots_.emplace_back(std::make_shared<Slot>());
}

void StreamInfer::SetAnswer(Slot& slot, InferCall::Answer answer) {
  // The last answer ends the call, which may be gone before this returns.
  const std::shared_ptr<Call> keep = call_.shared_from_this();
  absl::MutexLock lock(&mu_);
  slot.call.reset();
  slot.answer = std::move(answer);
  AdvanceLocked();
}

void StreamInfer::OnWritten(bool ok) {
  absl::MutexLock lock(&mu_);
  writing_ = false;
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

void StreamInfer::WriteLocked(InferCall::Answer answer) {
  if (deaf_) return;
  if (!answer.status.ok() && errors_end_stream_) {
    deaf_ = true;
    StopReadingLocked(std::move(answer.status));
    return;
  }
  writing_ = true;
  call_.Write(answer.status.ok() ? answer.message
                                 : EncodeStreamError(answer.status, answer.id));
}

void StreamInfer::AdvanceLocked() {
  if (finished_) return;
  while (!writing_ && !slots_.empty() && slots_.front()->answer.has_value()) {
    InferCall::Answer answer = *std::move(slots_.front()->answer);
    slots_.pop_front();
    WriteLocked(std::move(answer));
  }
  if (!reading_ && !end_.has_value() && slots_.size() < kMaxInFlight) {
    reading_ = true;
    call_.Read();
  }
  if (end_.has_value() && slots_.empty() && !writing_) {
    finished_ = true;
    call_.Finish(ToGrpcStatus(*end_));
  }
}

}  // namespace stoker
