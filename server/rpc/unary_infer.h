// One ModelInfer call.
#pragma once

#include <memory>

#include "rpc/call_access.h"
#include "rpc/infer_admission.h"
#include "rpc/infer_call.h"
#include "wire/byte_chain.h"
#include "wire/call.h"

namespace stoker {

class UnaryInfer final : public CallHandler {
 public:
  UnaryInfer(const InferCall::Services& services, Call& call)
      : services_(services),
        call_(call),
        access_(services.gate, TheMethod(), call),
        admission_(services) {}

  // Also of one over HTTP.
  static const Method& TheMethod();

 private:
  void OnStart() override;
  CallStatus Reserve(size_t bytes) override {
    return admission_.Reserve(bytes);
  }
  void OnMessage(const ByteChain& message) override;
  void OnEndOfMessages() override;
  void OnCancel() override;

  const InferCall::Services& services_;
  Call& call_;
  const CallAccess access_;
  CallerPass pass_;                   // held until the answer is sent
  InferAdmission admission_;          // likewise
  std::shared_ptr<InferCall> infer_;  // null until the message has arrived
};

}  // namespace stoker
