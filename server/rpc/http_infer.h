// One inference over HTTP.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "rpc/http_form.h"
#include "rpc/infer_admission.h"
#include "rpc/infer_call.h"
#include "rpc/infer_caller.h"
#include "wire/byte_chain.h"
#include "wire/http_call.h"

namespace stoker {

class HttpInfer final : public HttpHandler {
 public:
  HttpInfer(const InferCall::Services& services, HttpCall& call,
            std::string model, std::string version);

 private:
  void OnStart() override;
  CallStatus Reserve(size_t bytes) override {
    return admission_.Reserve(bytes);
  }
  void OnBody(const ByteChain& body) override;
  void OnBadBody(const CallStatus& why) override;
  void OnCancel() override;

  void Answer(const InferCall::Answer& answer);
  void Refuse(const absl::Status& status);

  const InferCall::Services& services_;
  HttpCall& call_;
  const InferCaller caller_;
  std::string model_, version_;
  std::optional<size_t> json_size_;
  CallerPass pass_;                   // held until the answer is sent
  InferAdmission admission_;          // likewise
  std::unique_ptr<HttpForm> form_;    // null until the body has arrived
  std::shared_ptr<InferCall> infer_;  // likewise
};

}  // namespace stoker
