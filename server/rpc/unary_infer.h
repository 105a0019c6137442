// One ModelInfer call.
#pragma once

#include <memory>

#include "rpc/infer_admission.h"
#include "rpc/infer_call.h"
#include "rpc/infer_caller.h"
#include "wire/byte_chain.h"
#include "wire/call.h"

namespace stoker {

class UnaryInfer final : public CallHandler {
 public:
  UnaryInfer(const InferCall::Services& services, Call& call)
      : services_(services),
        call_(call),
        caller_(services.gate, services.telemetry, TheMethod(), call, "grpc"),
        admission_(services, caller_) {}

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
  const InferCaller caller_;
  CallerPass pass_;                   // held until the answer is sent
  InferAdmission admission_;          // likewise
  std::shared_ptr<InferCall> infer_;  // null until the message has arrived
};

}  // namespace stoker
