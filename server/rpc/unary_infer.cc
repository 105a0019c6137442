#include "rpc/unary_infer.h"

#include <utility>

#include "rpc/status_mapping.h"

namespace stoker {

// Refused before any of the message is taken: gRPC reads no more than its first
// 64 KiB until it is asked to.
void UnaryInfer::OnStart() {
  const absl::Status status = ticket_.Take(Admission::kCallBytes);
  if (status.ok()) {
    call_.ReadSoon();
  } else {
    InferCall::CountRefusal(services_, status);
    call_.Finish(ToGrpcStatus(status));
  }
}

void UnaryInfer::OnMessage(const grpc::ByteBuffer& message) {
  infer_ =
      InferCall::Start(services_, message, call_.deadline(), AnswerForm::kUnary,
                       ticket_, [this](const InferCall::Answer& answer) {
                         // Finished on a device thread, it could be gone
                         // before that thread has left it.
                         const auto keep = call_.shared_from_this();
                         if (answer.status.ok()) {
                           call_.Answer(answer.message);
                         } else {
                           call_.Finish(ToGrpcStatus(answer.status));
                         }
                       });
}

void UnaryInfer::OnEndOfMessages() { call_.Finish(NoMessageStatus()); }

void UnaryInfer::OnCancel() {
  if (infer_ != nullptr) infer_->Cancel();
}

}  // namespace stoker
