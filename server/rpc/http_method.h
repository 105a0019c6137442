// A method of one message and one answer that is asked for over HTTP: what the
// path and the JSON say becomes the method's message, its handler is gRPC's
// own, and its answer becomes JSON.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rpc/method_table.h"
#include "wire/byte_chain.h"
#include "wire/call.h"
#include "wire/http_call.h"

namespace stoker {

class HttpMethod final : public HttpHandler {
 public:
  // Makes the method's message of the body.
  using Request = std::function<absl::StatusOr<std::string>(std::string_view)>;
  // And HTTP's answer of the method's.
  using Translate = std::function<HttpAnswer(const std::string& message)>;

  // The table outlives it. `method`: "/inference.GRPCInferenceService/..."
  HttpMethod(HttpCall& http, const MethodTable& methods, std::string method,
             Request request, Translate translate);
  ~HttpMethod() override;

 private:
  class MethodCall;

  CallStatus Reserve(size_t bytes) override;
  void OnBody(const ByteChain& body) override;
  void OnBadBody(const CallStatus& why) override;
  void OnCancel() override;
  void OnStop() override;

  HttpCall& http_;
  const MethodTable& methods_;
  const Request request_;
  size_t reserved_ = 0;
  const std::shared_ptr<MethodCall> call_;
  std::unique_ptr<CallHandler> handler_;  // null until the body has arrived
};

}  // namespace stoker
