// A method of one message and one answer that is asked for over HTTP: what the
// path and the JSON say becomes the method's message, its handler is gRPC's
// own, and its answer becomes JSON.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "rpc/admission.h"
#include "rpc/completion_thread.h"
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

  // For bodies that are too large to be read on a loop: they hold memory of
  // `admission`, and are read by `thread`. All outlive the method.
  struct Large {
    Admission& admission;
    CompletionThread& thread;
    size_t max_bytes = 0;  // of a body
  };

  // The table outlives it. `method`: "/inference.GRPCInferenceService/..."
  // `large` null: bodies are small.
  HttpMethod(HttpCall& http, const MethodTable& methods, std::string method,
             Request request, Translate translate, const Large* large);
  ~HttpMethod() override;

 private:
  class MethodCall;

  void OnStart() override ABSL_LOCKS_EXCLUDED(mu_);
  CallStatus Reserve(size_t bytes) override;
  void OnBody(const ByteChain& body) override;
  void OnBadBody(const CallStatus& why) override;
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnStop() override ABSL_LOCKS_EXCLUDED(mu_);

  size_t max_body() const;
  CallStatus TooLarge(size_t bytes) const;
  // The body's bytes as the method's message, to its handler.
  void Proceed(const std::string& body) ABSL_LOCKS_EXCLUDED(mu_);

  HttpCall& http_;
  const MethodTable& methods_;
  const Request request_;
  const Large* const large_;
  size_t reserved_ = 0;
  std::unique_ptr<Admission::Ticket> ticket_;  // null: small
  const std::shared_ptr<MethodCall> call_;

  // The handler is told of one thing at a time.
  absl::Mutex mu_;
  std::unique_ptr<CallHandler> handler_ ABSL_PT_GUARDED_BY(mu_);
};

}  // namespace stoker
