#include "rpc/call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/call_loop.h"
#include "rpc/error_text.h"
#include "rpc/grpc_time.h"
#include "rpc/status_mapping.h"

namespace stoker {

void Call::Await(CallLoop& loop) {
  const auto call = std::make_shared<Call>(loop);
  // gRPC reports the last two once the call has arrived, whatever becomes of
  // it.
  call->arrival_.Hold();
  call->done_.Hold();
  call->finished_.Hold();
  call->context_.AsyncNotifyWhenDone(call->done_.tag());
  grpc::ServerCompletionQueue* const queue = loop.queue_.get();
  loop.service_.RequestCall(&call->context_, &call->stream_, queue, queue,
                            call->arrival_.tag());
}

Call::Call(CallLoop& loop) : loop_(loop) {}

Call::~Call() {
  if (open_) loop_.Remove();
}

MonotonicTime Call::deadline() const {
  return loop_.clock_.Now() + GrpcTimeLeft(context_.raw_deadline());
}

bool Call::HasHeader(std::string_view name, std::string_view value) const {
  const auto& headers = context_.client_metadata();
  const auto entry = headers.find({name.data(), name.size()});
  return entry != headers.end() &&
         entry->second == grpc::string_ref(value.data(), value.size());
}

void Call::OnArrival(bool ok) {
  if (!ok) {  // the server stops
    done_.Drop();
    finished_.Drop();
    return;
  }
  Await(loop_);
  open_ = true;
  loop_.Add(*this);
  handler_ = loop_.methods_.NewHandler(*this);
  if (handler_ == nullptr) {
    Finish(ToGrpcStatus(absl::UnimplementedError(
        absl::StrCat("unknown method '", Excerpt(method()), "'"))));
    return;
  }
  handler_->OnStart();
  if (loop_.stopping_) handler_->OnStop();
}

int64_t Call::StallsAt() const {
  return (loop_.clock_.Now() + loop_.stall_limit_).ToNanoseconds();
}

void Call::Read() {
  read_.Hold();
  stream_.Read(&incoming_, read_.tag());
}

void Call::ReadSoon() {
  read_due_.store(StallsAt(), std::memory_order_relaxed);
  Read();
}

void Call::OnRead(bool ok) {
  read_due_.store(INT64_MAX, std::memory_order_relaxed);
  if (ok) {
    const grpc::ByteBuffer message = std::move(incoming_);
    handler_->OnMessage(message);
  } else {
    handler_->OnEndOfMessages();
  }
}

void Call::Write(const grpc::ByteBuffer& message) {
  write_due_.store(StallsAt(), std::memory_order_relaxed);
  written_.Hold();
  stream_.Write(message, written_.tag());
}

void Call::OnWritten(bool ok) {
  write_due_.store(INT64_MAX, std::memory_order_relaxed);
  handler_->OnWritten(ok);
}

void Call::Finish(const grpc::Status& status) {
  if (BeginToFinish()) stream_.Finish(status, finished_.tag());
}

void Call::Answer(const grpc::ByteBuffer& message) {
  if (!BeginToFinish()) return;
  write_due_.store(StallsAt(), std::memory_order_relaxed);
  stream_.WriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK,
                         finished_.tag());
}

void Call::OnFinished(bool /*ok*/) {}

void Call::OnDone(bool /*ok*/) {
  loop_.Unlink(*this);
  if (handler_ != nullptr && context_.IsCancelled()) handler_->OnCancel();
}

void Call::OnStop() {
  if (handler_ != nullptr) handler_->OnStop();
}

bool Call::EndIfStalled(MonotonicTime now) {
  const int64_t at = now.ToNanoseconds();
  if (at >= write_due_.load(std::memory_order_relaxed)) {
    context_.TryCancel();
    return true;
  }
  if (at < read_due_.load(std::memory_order_relaxed)) return false;
  read_due_.store(INT64_MAX, std::memory_order_relaxed);
  Finish(ToGrpcStatus(absl::DeadlineExceededError(
      absl::StrCat("expected a whole message within ",
                   absl::FormatDuration(loop_.stall_limit_)))));
  return true;
}

}  // namespace stoker
