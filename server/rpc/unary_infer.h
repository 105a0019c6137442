// One ModelInfer call.
#pragma once

#include <memory>

#include "rpc/infer_call.h"
#include "wire/byte_chain.h"
#include "wire/call.h"

namespace stoker {

class UnaryInfer final : public CallHandler {
 public:
  UnaryInfer(const InferCall::Services& services, Call& call)
      : services_(services), call_(call), ticket_(services.admission) {}

 private:
  void OnStart() override { call_.ReadSoon(); }
  CallStatus Reserve(size_t bytes) override;
  void OnMessage(const ByteChain& message) override;
  void OnEndOfMessages() override;
  void OnCancel() override;

  const InferCall::Services& services_;
  Call& call_;
  Admission::Ticket ticket_;          // held until the answer is sent
  size_t reserved_ = 0;               // in it, for the message
  std::shared_ptr<InferCall> infer_;  // null until the message has arrived
};

}  // namespace stoker
