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
      : services_(services), call_(call) {}

 private:
  void OnStart() override { call_.ReadSoon(); }
  void OnMessage(const grpc::ByteBuffer& message) override;
  void OnEndOfMessages() override;
  void OnCancel() override;

  const InferCall::Services& services_;
  Call& call_;
  std::shared_ptr<InferCall> infer_;  // null until the message has arrived
};

}  // namespace stoker
