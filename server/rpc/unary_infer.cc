#include "rpc/unary_infer.h"

#include <utility>

#include "rpc/method_table.h"
#include "rpc/status_mapping.h"

namespace stoker {

const Method& UnaryInfer::TheMethod() {
  static const Method& method = *FindMethod(InferencePath("ModelInfer"));
  return method;
}

void UnaryInfer::OnStart() {
  absl::Status may = caller_.Check(Target::Server());
  if (may.ok()) may = caller_.Enter(pass_);
  if (!may.ok()) {
    InferCall::Refused(services_, may, &caller_);
    return call_.Finish(ToCallStatus(may));
  }
  call_.ReadSoon();
}

void UnaryInfer::OnMessage(const ByteChain& message) {
  admission_.Busy();
  infer_ = InferCall::Start(
      services_, message, call_.deadline(), AnswerForm::kUnary,
      admission_.ticket(), admission_.reserved(),
      [this](const InferCall::Answer& answer) {
        // Finished on a device thread, it could be gone
        // before that thread has left it.
        const auto keep = call_.shared_from_this();
        if (answer.status.ok()) {
          call_.Answer(answer.message);
        } else {
          call_.Finish(ToCallStatus(answer.status));
        }
      },
      &caller_);
}

void UnaryInfer::OnEndOfMessages() { call_.Finish(NoMessageStatus()); }

void UnaryInfer::OnCancel() {
  if (infer_ != nullptr) infer_->Cancel();
}

}  // namespace stoker
