#include "rpc/http_infer.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error_text.h"
#include "rpc/http_answer.h"
#include "rpc/status_mapping.h"
#include "rpc/unary_infer.h"
#include "wire/encoding.h"

namespace stoker {
namespace {

constexpr char kJsonSize[] = "Inference-Header-Content-Length";

}  // namespace

HttpInfer::HttpInfer(const InferCall::Services& services, HttpCall& call,
                     std::string model, std::string version)
    : services_(services),
      call_(call),
      caller_(services.gate, services.telemetry, UnaryInfer::TheMethod(), call,
              "http"),
      model_(std::move(model)),
      version_(std::move(version)),
      admission_(services, caller_) {}

void HttpInfer::OnStart() {
  absl::Status may = caller_.Check(Target::Of(model_));
  if (may.ok()) may = caller_.Enter(pass_);
  if (!may.ok()) return Refuse(may);
  const HttpHead& head = call_.head();
  if (!head.content_length.has_value() && !head.chunked) {
    HttpAnswer answer;
    answer.status = 411;
    answer.body = HttpErrorBody(
        "expected a request's body with Content-Length or Transfer-Encoding: "
        "chunked, got neither");
    return call_.Answer(answer);
  }
  const std::string* const size = head.Find("inference-header-content-length");
  if (size == nullptr) return;
  json_size_.emplace(0);
  const bool digits = size->find_first_not_of("0123456789") == size->npos;
  if (digits && absl::SimpleAtoi(*size, &*json_size_)) return;
  Refuse(absl::InvalidArgumentError(
      absl::StrCat("invalid header length '", Excerpt(*size), "' in ",
                   kJsonSize, ", expected a number of bytes")));
}

void HttpInfer::OnBody(const ByteChain& body) {
  admission_.Busy();
  form_ =
      std::make_unique<HttpForm>(body, std::move(model_), std::move(version_),
                                 json_size_, WantedCoding(call_.head()));
  infer_ = InferCall::Start(
      services_, *form_, MonotonicTime::InfiniteFuture(), admission_.ticket(),
      admission_.reserved(),
      [this](const InferCall::Answer& answer) { Answer(answer); }, &caller_);
}

void HttpInfer::Answer(const InferCall::Answer& answer) {
  // Finished on a device thread, it could be gone before that thread has left
  // it.
  const auto keep = call_.shared_from_this();
  if (!answer.status.ok()) {
    return call_.Answer(ErrorAnswer(ToCallStatus(answer.status)));
  }
  HttpAnswer given;
  given.body = answer.message;
  if (const std::optional<size_t>& size = form_->answer_json_size()) {
    given.content_type = "application/octet-stream";
    absl::StrAppend(&given.headers, kJsonSize, ": ", *size, "\r\n");
  }
  if (form_->answer_coding() != Encoding::kIdentity) {
    absl::StrAppend(&given.headers,
                    "Content-Encoding: ", EncodingName(form_->answer_coding()),
                    "\r\n");
  }
  call_.Answer(given);
}

void HttpInfer::Refuse(const absl::Status& status) {
  InferCall::Refused(services_, status, &caller_);
  call_.Answer(ErrorAnswer(ToCallStatus(status)));
}

void HttpInfer::OnBadBody(const CallStatus& why) {
  HttpAnswer answer = ErrorAnswer(why);
  // It was the client that took too long.
  if (why.code == absl::StatusCode::kDeadlineExceeded) answer.status = 408;
  call_.Answer(answer);
}

void HttpInfer::OnCancel() {
  if (infer_ != nullptr) infer_->Cancel();
}

}  // namespace stoker
