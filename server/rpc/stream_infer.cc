#include "rpc/stream_infer.h"

#include <grpcpp/server_context.h>

#include <utility>
#include <vector>

#include "rpc/status_mapping.h"

namespace stoker {
namespace {

bool HasErrorHeader(const grpc::CallbackServerContext& context) {
  const auto entry = context.client_metadata().find("triton_grpc_error");
  return entry != context.client_metadata().end() && entry->second == "true";
}

}  // namespace

StreamInfer::StreamInfer(const InferCall::Services& services,
                         const grpc::CallbackServerContext& context,
                         std::function<void(const StreamInfer*)> on_done)
    : services_(services),
      deadline_(absl::FromChrono(context.deadline())),
      errors_end_stream_(HasErrorHeader(context)),
      on_done_(std::move(on_done)) {}

void StreamInfer::Start() {
  absl::MutexLock lock(&mu_);
  AdvanceLocked();
}

void StreamInfer::End() {
  absl::MutexLock lock(&mu_);
  if (!end_.has_value())
    StopReadingLocked(absl::UnavailableError("Server exiting"));
  AdvanceLocked();
}

void StreamInfer::OnReadDone(bool ok) {
  if (!ok) {
    absl::MutexLock lock(&mu_);
    reading_ = false;
    StopReadingLocked(absl::OkStatus());
    AdvanceLocked();
    return;
  }
  const std::shared_ptr<Slot> slot = OpenSlot();
  // Null once the stream is ending: what came too late is dropped.
  std::shared_ptr<InferCall> call;
  if (slot != nullptr) {
    call = InferCall::Start(
        services_, incoming_, deadline_, AnswerForm::kStream,
        [self = shared_from_this(), slot](InferCall::Answer answer) {
          self->SetAnswer(*slot, std::move(answer));
        });
  }
  bool cancelled = false;
  {
    absl::MutexLock lock(&mu_);
    incoming_.Clear();
    reading_ = false;
    if (slot != nullptr && !slot->answer.has_value()) {
      slot->call = call;
      cancelled = deaf_;
    }
    AdvanceLocked();
  }
  if (cancelled) call->Cancel();
}

std::shared_ptr<StreamInfer::Slot> StreamInfer::OpenSlot() {
  absl::MutexLock lock(&mu_);
  if (end_.has_value()) return nullptr;
  return slots_.emplace_back(std::make_shared<Slot>());
}

void StreamInfer::SetAnswer(Slot& slot, InferCall::Answer answer) {
  absl::MutexLock lock(&mu_);
  slot.call.reset();
  slot.answer = std::move(answer);
  AdvanceLocked();
}

void StreamInfer::OnWriteDone(bool ok) {
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

void StreamInfer::OnDone() { on_done_(this); }

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
  outgoing_ = answer.status.ok() ? std::move(answer.message)
                                 : EncodeStreamError(answer.status, answer.id);
  writing_ = true;
  StartWrite(&outgoing_);
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
    StartRead(&incoming_);
  }
  if (end_.has_value() && slots_.empty() && !writing_) {
    finished_ = true;
    Finish(ToGrpcStatus(*end_));
  }
}

}  // namespace stoker
