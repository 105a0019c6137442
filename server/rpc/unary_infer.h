// One ModelInfer call.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "rpc/call.h"
#include "rpc/infer_call.h"

namespace stoker {

class UnaryInfer final : public CallHandler {
 public:
  UnaryInfer(const InferCall::Services& services, Call& call)
      : services_(services), call_(call), ticket_(services.admission) {}

 private:
  void OnStart() override;
  void OnMessage(const grpc::ByteBuffer& message) override;
  void OnEndOfMessages() override;
  void OnCancel() override;

  const InferCall::Services& services_;
  Call& call_;
  Admission::Ticket ticket_;          // held until the answer is sent
  std::shared_ptr<InferCall> infer_;  // null until the message has arrived
};

}  // namespace stoker
